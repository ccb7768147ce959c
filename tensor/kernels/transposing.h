// Transposition of a block of 4 by 4, for kernels that are compiled once for each instruction set (simd.h).

#pragma once

#include <cstddef>

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// Rows of `from` are `from_step` elements apart, rows of `to` `to_step`.
DISPOSESCOPE_INLINE void transpose_block(const float* from, float* to, std::ptrdiff_t from_step, std::ptrdiff_t to_step) {
#if defined(__SSE__) || defined(_M_X64)
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_step);
    __m128 c = _mm_loadu_ps(from + 2 * from_step), d = _mm_loadu_ps(from + 3 * from_step);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_step, b);
    _mm_storeu_ps(to + 2 * to_step, c);
    _mm_storeu_ps(to + 3 * to_step, d);
#else
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            to[j * to_step + i] = from[i * from_step + j];
#endif
}

DISPOSESCOPE_INLINE void transpose_block(const double* from, double* to, std::ptrdiff_t from_step, std::ptrdiff_t to_step) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            to[j * to_step + i] = from[i * from_step + j];
}

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
