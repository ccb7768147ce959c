// What affine maps (x @ weight.T + bias, then perhaps ReLU) do beside the matrix product; see simd.h.

#pragma once

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// A matrix of `columns` values a row, to each of which `bias` (or null) is added in place; then what is
// negative becomes 0, if so wished.
struct Finish {
    void* out;
    const void* bias;
    std::ptrdiff_t columns;
    bool is_rectified;
};

struct Affine {
    // `to` (columns, rows) becomes the transpose of `from` (rows, columns).
    void (*transpose_single)(const void* from, void* to, std::ptrdiff_t rows, std::ptrdiff_t columns);
    void (*transpose_double)(const void* from, void* to, std::ptrdiff_t rows, std::ptrdiff_t columns);
    // The rows from `start` to `end` of a `Finish`.
    void (*finish_single)(void* finish, std::ptrdiff_t start, std::ptrdiff_t end);
    void (*finish_double)(void* finish, std::ptrdiff_t start, std::ptrdiff_t end);
};

DISPOSESCOPE_KERNELS(Affine, affine)

}  // namespace disposescope::kernels
