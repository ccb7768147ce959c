// Stores that bypass the cache, for results that are too large for any cache.
//
// A plain store first reads its cache line. So a sum of two arrays moves four arrays between memory and
// processor instead of three, and evicts lines of the operands for lines that are not read soon. Here a loop
// computes a few cache lines at a time, which stay in the first-level cache, and non-temporal stores write
// them to memory. On one thread, a sum of two arrays of 40 MB takes 2.6 ms instead of 4.0 ms. With 1 KB at a
// time it takes 3.0 ms, because stores and loads then alternate.

#pragma once

#include <cstdint>
#include <cstring>

#include "tensor/kernels/elementwise.h"

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define DISPOSESCOPE_STREAMS 1
#else
#define DISPOSESCOPE_STREAMS 0
#endif

namespace disposescope::kernels {

// Results of at least this many bytes are streamed. The next op may find a smaller result in the last-level
// cache.
constexpr std::ptrdiff_t streamed_from = std::ptrdiff_t{1} << 25;

// The bytes that a loop computes at a time.
constexpr std::ptrdiff_t bytes_at_once = 512;

// A loop over arrays with elements of `itemsize` bytes, without `columns`.
struct Streamed {
    Loop loop;
    const Operands* operands;
    std::ptrdiff_t itemsize;
};

inline bool is_streamed(const void* out, std::ptrdiff_t nbytes) noexcept {
    return DISPOSESCOPE_STREAMS && nbytes >= streamed_from && reinterpret_cast<std::uintptr_t>(out) % 16 == 0;
}

#if DISPOSESCOPE_STREAMS

// Both `to` and `from` must be aligned to 16 bytes.
inline void stream(char* to, const char* from, std::ptrdiff_t nbytes) noexcept {
    std::ptrdiff_t i = 0;
    for (; i + 16 <= nbytes; i += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
    std::memcpy(to + i, from + i, static_cast<std::size_t>(nbytes - i));
}

#endif

// For `parallel_for`: run the loop of a `Streamed` from `start` to `end`, multiples of 16 bytes except at the
// end of arrays.
inline void run_streamed([[maybe_unused]] void* streamed, [[maybe_unused]] std::ptrdiff_t start,
                         [[maybe_unused]] std::ptrdiff_t end) noexcept {
#if DISPOSESCOPE_STREAMS
    const Streamed& all = *static_cast<const Streamed*>(streamed);
    const auto at = [&](const void* array) {
        return array == nullptr ? nullptr : static_cast<const char*>(array) + start * all.itemsize;
    };
    alignas(64) char lines[bytes_at_once];
    Operands part = *all.operands;
    char* const out = static_cast<char*>(part.out);
    part.out = lines;
    for (std::ptrdiff_t n = bytes_at_once / all.itemsize; start < end; start += n) {
        if (end - start < n) n = end - start;
        part.a = at(all.operands->a);
        part.b = at(all.operands->b);
        all.loop(&part, 0, n);
        stream(out + start * all.itemsize, lines, n * all.itemsize);
    }
    _mm_sfence();  // make the stores visible before this piece counts as done
#endif
}

}  // namespace disposescope::kernels
