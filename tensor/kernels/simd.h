// Instruction sets: which one kernels use is chosen once, when the program runs.
//
// A family of kernels is one C++ file, name.cpp, that CMakeLists.txt compiles once for each set, with
// DISPOSESCOPE_SIMD naming the namespace of the variant: baseline (SSE2, or what an ARM64 has), avx2 (with
// fused multiply-add), avx512. It defines one table of functions, `const Table name_kernels`, in that
// namespace; name.h has the type `Table` and DISPOSESCOPE_KERNELS(Table, name), which gives
// `name_kernels_of(level)`:
//
//     namespace disposescope::kernels {
//     struct Powers { void (*square)(void* context, std::ptrdiff_t start, std::ptrdiff_t end); };
//     DISPOSESCOPE_KERNELS(Powers, powers)
//     }
//
// All else in such a file is `static`, or in an anonymous namespace, and nothing in it uses inline functions
// or templates of the C++ library: the linker would keep one of the copies, perhaps that with AVX-512, for all.

#pragma once

#include <cstddef>
#include <cstdint>

namespace disposescope::kernels {

// In this order, each with all that those before it have.
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
