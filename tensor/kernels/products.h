// Products of matrices on the pool of threads: of two, with what is done with the results in the same pass; of stacks of
// small ones, of which a BLAS makes one after the other; and by one matrix that many are multiplied by, laid out once.
// See simd.h.

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

// A matrix of `inner` rows as products read it: panels of some columns, in each row after row, zeros behind the last
// column of the matrix.
struct Panels {
    std::ptrdiff_t inner, columns, b_inner, b_column;
    const void* b;
    void* to;  // inner * columns, these rounded up to 64 bytes times 2
};

// The columns of a panel, whatever the instruction set: 128 bytes.
constexpr std::ptrdiff_t panel_bytes = 128;

// A matrix times one that lies in panels.
struct PanelProduct {
    std::ptrdiff_t rows, inner, columns, a_row, out_row;
    const void* a;  // rows whose elements lie side by side
    const void* panels;
    void* out;  // rows whose elements lie side by side
};

// Rows of a unit of work, which is as wide as a panel.
constexpr std::ptrdiff_t rows_of_unit = 64;

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
    void (*lay_out[2])(void* panels, std::ptrdiff_t start, std::ptrdiff_t end);    // a panel
    void (*by_panels[2])(void* product, std::ptrdiff_t start, std::ptrdiff_t end);
    void (*whole[2])(void* product, std::ptrdiff_t start, std::ptrdiff_t end);
};

DISPOSESCOPE_KERNELS(Products, products)

}  // namespace disposescope::kernels
