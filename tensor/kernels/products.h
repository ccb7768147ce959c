// Matrix products on the thread pool: products of two matrices, with functions of the result in the same
// pass, and stacks of products of small matrices, which a BLAS computes one after another. See simd.h.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// The sizes of each product, and the strides of both factors in elements.
struct StackedProducts {
    std::ptrdiff_t rows, inner, columns;
    std::ptrdiff_t a_row, a_inner, b_inner, b_column;
    const void* a;
    const void* b;
    void* out;  // in C order
    // The dimensions of the stack. A factor has stride 0 along dimensions that are broadcast.
    int ndim;
    const std::ptrdiff_t* sizes;
    const std::ptrdiff_t* a_steps;
    const std::ptrdiff_t* b_steps;
};

// The most rows of a panel. A longer panel of the second factor would not fit on a thread's stack, or into
// the second-level cache.
constexpr std::ptrdiff_t most_inner = 512;

// The bytes in a row of a panel, for any instruction set. A panel is a copy of some columns of the second
// factor, row after row, with zeros after the last column of the matrix.
constexpr std::ptrdiff_t panel_bytes = 128;

// The product of two matrices, then steps on the result: add `bias` (or null), one value for each column; if
// `is_rectified`, set negative values to 0; call the elementwise `function` (or null). A unit is as wide as a
// panel, and copies its part of the second factor to a panel.
struct MatrixProduct {
    std::ptrdiff_t rows, inner, columns, rows_of_unit;
    std::ptrdiff_t a_row, a_inner, b_inner, b_column;
    const void* a;
    const void* b;
    void* out;  // in C order
    const void* bias;
    bool is_rectified;
    Loop function;
    void* mapped;  // the output of `function`; may be `out`
};

// Process the units from `start` to `end`, for floats and doubles.
struct Products {
    void (*stacked[2])(void* products, std::ptrdiff_t start, std::ptrdiff_t end);  // a unit is a product
    void (*whole[2])(void* product, std::ptrdiff_t start, std::ptrdiff_t end);
};

DISPOSESCOPE_KERNELS(Products, products)

}  // namespace disposescope::kernels
