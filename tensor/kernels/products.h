// Products of matrices on the pool of threads: of two, with what is done with the results in the same pass, and of stacks
// of small ones, of which a BLAS makes one after the other. See simd.h.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Of each product, and how many elements lie between neighbours in a column and a row of both factors.
struct StackedProducts {
    std::ptrdiff_t rows, inner, columns;
    std::ptrdiff_t a_row, a_inner, b_inner, b_column;
    const void* a;
    const void* b;
    void* out;  // in C order
    // The dimensions of the stack; a factor that is the same for all of one has the step 0 there.
    int ndim;
    const std::ptrdiff_t* sizes;
    const std::ptrdiff_t* a_steps;
    const std::ptrdiff_t* b_steps;
};

// Of longer rows a panel of the second factor would not fit on a thread's stack, nor stay in the second cache.
constexpr std::ptrdiff_t most_inner = 512;

// The second factor is read in panels of so many bytes a row, whatever the instruction set: some columns, row after row,
// zeros behind the last column of the matrix.
constexpr std::ptrdiff_t panel_bytes = 128;

// The product of two matrices, and what becomes of each result: `bias` (or null), one value for each column, is added,
// then what is negative raised to 0 if so wished; then `function` (or null), an elementwise one, is called.
// A unit is as wide as a panel, and lays out what it needs of the second factor itself.
struct MatrixProduct {
    std::ptrdiff_t rows, inner, columns, rows_of_unit;
    std::ptrdiff_t a_row, a_inner, b_inner, b_column;
    const void* a;
    const void* b;
    void* out;  // in C order
    const void* bias;
    bool is_rectified;
    Loop function;
    void* mapped;  // for what `function` returns; may be `out`
};

// By units from `start` to `end`, of floats and of doubles.
struct Products {
    void (*stacked[2])(void* products, std::ptrdiff_t start, std::ptrdiff_t end);  // a unit is a product
    void (*whole[2])(void* product, std::ptrdiff_t start, std::ptrdiff_t end);
};

DISPOSESCOPE_KERNELS(Products, products)

}  // namespace disposescope::kernels
