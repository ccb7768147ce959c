// Compiled once for each instruction set; see simd.h.

#include "tensor/kernels/affine.h"

#if defined(__SSE__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

namespace {

// A block of 4 by 4, of rows `from_step` and `to_step` elements apart.
inline void transpose_block(const float* from, float* to, std::ptrdiff_t from_step, std::ptrdiff_t to_step) {
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

inline void transpose_block(const double* from, double* to, std::ptrdiff_t from_step, std::ptrdiff_t to_step) {
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            to[j * to_step + i] = from[i * from_step + j];
}

template <typename T>
void transpose(const void* source, void* target, std::ptrdiff_t rows, std::ptrdiff_t columns) {
    const T* from = static_cast<const T*>(source);
    T* to = static_cast<T*>(target);
    const std::ptrdiff_t whole_rows = rows - rows % 4, whole_columns = columns - columns % 4;
    // Down the rows first: a strip of 4 columns becomes 4 rows, which are written from end to end.
    for (std::ptrdiff_t j = 0; j < whole_columns; j += 4)
        for (std::ptrdiff_t i = 0; i < whole_rows; i += 4)
            transpose_block(from + i * columns + j, to + j * rows + i, columns, rows);
    for (std::ptrdiff_t i = 0; i < rows; i++)
        for (std::ptrdiff_t j = i < whole_rows ? whole_columns : 0; j < columns; j++)
            to[j * rows + i] = from[i * columns + j];
}

// nan is no less than 0: it stays.
template <typename T>
inline T rectified(T x) {
    return x <= T(0) ? T(0) : x;
}

template <typename T>
void finish(void* context, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Finish own = *static_cast<const Finish*>(context);
    const T* __restrict bias = static_cast<const T*>(own.bias);
    for (std::ptrdiff_t i = start; i < end; i++) {
        T* __restrict row = static_cast<T*>(own.out) + i * own.columns;
        if (bias == nullptr)
            for (std::ptrdiff_t j = 0; j < own.columns; j++) row[j] = rectified(row[j]);
        else if (own.is_rectified)
            for (std::ptrdiff_t j = 0; j < own.columns; j++) row[j] = rectified(row[j] + bias[j]);
        else
            for (std::ptrdiff_t j = 0; j < own.columns; j++) row[j] += bias[j];
    }
}

}  // namespace

const Affine affine_kernels = {transpose<float>, transpose<double>, finish<float>, finish<double>};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
