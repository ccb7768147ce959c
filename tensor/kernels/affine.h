// Affine maps (x @ weight.T + bias, optionally followed by ReLU): the steps after the matrix product, and
// complete kernels for few inputs or few outputs, where a BLAS takes two to four times as long. See simd.h.

#pragma once

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Add `bias` (or null), one value for each column, to a matrix in place. If `is_rectified`, set negative
// values to 0.
struct Finish {
    void* out;
    const void* bias;
    std::ptrdiff_t columns;
    bool is_rectified;
};

// A complete affine map of a matrix of shape (rows, inner). `bias` may be null.
struct ThinMap {
    std::ptrdiff_t rows, inner, columns;
    const void* x;
    const void* weight;  // shape (columns, inner)
    const void* bias;
    void* out;
    bool is_rectified;
};

// `few_inputs` supports up to `most_inputs`. The others are the size of a unit of work, in rows and columns
// of the result. Of a small batch, each of two threads computes half of the rows, for both kernels. So the
// next layer finds its input in the cache of the same core.
constexpr std::ptrdiff_t most_inputs = 8, rows_of_few_inputs = 32, columns_of_few_inputs = 512;
constexpr std::ptrdiff_t rows_of_few_outputs = 4;

struct Affine {
    // Process the rows from `start` to `end` of a `Finish`.
    void (*finish_single)(void* finish, std::ptrdiff_t start, std::ptrdiff_t end);
    void (*finish_double)(void* finish, std::ptrdiff_t start, std::ptrdiff_t end);
    // Process the units from `start` to `end` of a `ThinMap`, for floats and doubles.
    void (*few_inputs[2])(void* map, std::ptrdiff_t start, std::ptrdiff_t end);
    void (*few_outputs[2])(void* map, std::ptrdiff_t start, std::ptrdiff_t end);
};

DISPOSESCOPE_KERNELS(Affine, affine)

}  // namespace disposescope::kernels
