// Results too large for any cache, written past it.
//
// A plain store reads the line that it writes to first: a sum of two arrays moves four arrays between memory and processor
// instead of three, and throws the operands' lines out of the cache for one that nobody will find there. Here a loop computes a few
// lines at a time, which stay in the innermost cache, and non-temporal stores carry them to memory. On one thread a sum of two arrays of
// 40 MB takes 2.6 ms instead of 4.0; lines of 1 KB at a time would take 3.0, for stores and loads then take turns.

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

// Bytes of a result from which on it is streamed: a smaller one may be found in the last cache by who reads it next.
constexpr std::ptrdiff_t streamed_from = std::ptrdiff_t{1} << 25;

// Bytes that a loop computes at a time.
constexpr std::ptrdiff_t bytes_at_once = 512;

// A loop over arrays of elements of `itemsize` bytes, `columns` left out.
struct Streamed {
    Loop loop;
    const Operands* operands;
    std::ptrdiff_t itemsize;
};

inline bool is_streamed(const void* out, std::ptrdiff_t nbytes) noexcept {
    return DISPOSESCOPE_STREAMS && nbytes >= streamed_from && reinterpret_cast<std::uintptr_t>(out) % 16 == 0;
}

#if DISPOSESCOPE_STREAMS

// `to` is aligned to 16 bytes, `from` too.
inline void stream(char* to, const char* from, std::ptrdiff_t nbytes) noexcept {
    std::ptrdiff_t i = 0;
    for (; i + 16 <= nbytes; i += 16)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
    std::memcpy(to + i, from + i, static_cast<std::size_t>(nbytes - i));
}

#endif

// For `parallel_for`: runs the loop of a `Streamed` from `start` to `end`, both multiples of 16 bytes, but for the end of the arrays.
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
    _mm_sfence();  // others see what was written before they hear that this piece is done
#endif
}

}  // namespace disposescope::kernels
