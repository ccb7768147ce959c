// Products of stacks of small matrices, each by one thread: of these a BLAS makes one after the other, and pays for each
// call. See simd.h.

#pragma once

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

// Of longer rows a block of the second factor would not stay in the cache next to the processor.
constexpr std::ptrdiff_t most_inner = 512;

struct Products {
    // The products from `start` to `end` of `StackedProducts`, of floats and of doubles.
    void (*stacked[2])(void* products, std::ptrdiff_t start, std::ptrdiff_t end);
};

DISPOSESCOPE_KERNELS(Products, products)

}  // namespace disposescope::kernels
