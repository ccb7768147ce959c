// Sums, extremes, and moments of channels, for each instruction set (simd.h).

#pragma once

#include "tensor/kernels/channels.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct ReductionWork {
    Channels shape;
    Parts parts;
    const void* x;
    const void* y;       // of sums of products
    const void* around;  // of sums of products: what is subtracted from each channel of `x`
    // For each part of each channel, in two arrays: a sum; the largest, or its place too; mean and sum of squares.
    double* first;
    double* second;
    void* out;           // one for each channel
    void* other;         // a second result
    double divisor;      // of the sum, or of the sum of squares
};

struct Reductions {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Do the units from `start` to `end` (channels.h), for floats and for doubles.
    Kernel sum[2], maximum[2], minimum[2], argmax[2], argmin[2], moments[2], products[2];
    // Join the states of the channels from `start` to `end`, and write what they make: the sum over the divisor; the
    // largest, or the smallest; its place as int64; the mean, and the sum of squares over the divisor; the sum of
    // `y`, and of `y` times `x` less `around`.
    Kernel end_sum[2], end_maximum[2], end_minimum[2], end_argmax[2], end_argmin[2], end_moments[2], end_products[2];
};

DISPOSESCOPE_KERNELS(Reductions, reductions)

}  // namespace disposescope::kernels
