// Instruction sets. The process selects one for its kernels when it imports them.
//
// A family of kernels is one C++ file, name.cpp. CMakeLists.txt compiles it once for each instruction set,
// with DISPOSESCOPE_SIMD naming the namespace of the variant: baseline (SSE2, or the baseline of ARM64), avx2
// (with fused multiply-add), avx512. The file defines one table of functions, `const Table name_kernels`, in
// that namespace. name.h has the type `Table` and DISPOSESCOPE_KERNELS(Table, name), which defines
// `name_kernels_of(level)`:
//
//     namespace disposescope::kernels {
//     struct Powers { void (*square)(void* context, std::ptrdiff_t start, std::ptrdiff_t end); };
//     DISPOSESCOPE_KERNELS(Powers, powers)
//     }
//
// All other names in such a file are `static` or in an anonymous namespace. The file uses no inline functions
// or templates of the C++ library, because the linker would keep one copy for all variants, possibly the one
// with AVX-512.

#pragma once

#include <cstddef>
#include <cstdint>

namespace disposescope::kernels {

// Each level includes the instructions of the levels before it.
enum Level : int { level_baseline, level_avx2, level_avx512 };

}  // namespace disposescope::kernels

#if defined(DISPOSESCOPE_HAS_AVX2)
#define DISPOSESCOPE_AVX2(...) __VA_ARGS__
#else
#define DISPOSESCOPE_AVX2(...)
#endif
#if defined(DISPOSESCOPE_HAS_AVX512)
#define DISPOSESCOPE_AVX512(...) __VA_ARGS__
#else
#define DISPOSESCOPE_AVX512(...)
#endif

#define DISPOSESCOPE_KERNELS(Table, name)                                          \
    namespace baseline { extern const Table name##_kernels; }                      \
    DISPOSESCOPE_AVX2(namespace avx2 { extern const Table name##_kernels; })       \
    DISPOSESCOPE_AVX512(namespace avx512 { extern const Table name##_kernels; })   \
    inline const Table* name##_kernels_of([[maybe_unused]] int level) noexcept {   \
        DISPOSESCOPE_AVX512(if (level >= level_avx512) return &avx512::name##_kernels;) \
        DISPOSESCOPE_AVX2(if (level >= level_avx2) return &avx2::name##_kernels;)  \
        return &baseline::name##_kernels;                                          \
    }
