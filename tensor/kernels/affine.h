// What affine maps (x @ weight.T + bias, then perhaps ReLU) do beside the matrix product, and those of few inputs or
// of few outputs from end to end: for these a BLAS takes two to four times as long. See simd.h.

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

// A whole map of a matrix of `rows` by `inner` values; `bias` may be null.
struct ThinMap {
    std::ptrdiff_t rows, inner, columns;
    const void* x;
    const void* weight;  // shape (columns, inner)
    const void* bias;
    void* out;
    bool is_rectified;
};

// Of few inputs a unit is so many rows and columns of the result; of few outputs it is so many rows. In both, each of two
// threads gets half of the rows of a small batch: so the second map of a network reads what its own core has cached.
constexpr std::ptrdiff_t most_inputs = 8, rows_of_few_inputs = 32, columns_of_few_inputs = 512;
constexpr std::ptrdiff_t rows_of_few_outputs = 4;

struct Affine {
    // The rows from `start` to `end` of a `Finish`.
    void (*finish_single)(void* finish, std::ptrdiff_t start, std::ptrdiff_t end);
    void (*finish_double)(void* finish, std::ptrdiff_t start, std::ptrdiff_t end);
    // The units from `start` to `end` of a `ThinMap`, of floats and of doubles.
    void (*few_inputs[2])(void* map, std::ptrdiff_t start, std::ptrdiff_t end);
    void (*few_outputs[2])(void* map, std::ptrdiff_t start, std::ptrdiff_t end);
};

DISPOSESCOPE_KERNELS(Affine, affine)

}  // namespace disposescope::kernels
