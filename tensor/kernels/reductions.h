// Sums, extremes, and moments of channels, for each instruction set (simd.h).

#pragma once

#include "tensor/kernels/channels.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct ReductionWork {
    Channels shape;
    Parts parts;
    const void* x;
    const void* y;       // for sums of products
    const void* around;  // for sums of products: the value to subtract from each channel of `x`
    // The states of the parts of all channels, in two arrays: a sum; a maximum and its index; a mean and sum
    // of squares.
    double* first;
    double* second;
    void* out;           // one value for each channel
    void* other;         // a second result
    double divisor;      // of the sum, or of the sum of squares
};

struct Reductions {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Process the units from `start` to `end` (channels.h), for floats and doubles.
    Kernel sum[2], maximum[2], minimum[2], argmax[2], argmin[2], moments[2], products[2];
    // Join the states of the channels from `start` to `end`, and write the results: the sum / divisor; the
    // maximum or minimum; its index as int64; the mean, and the sum of squares / divisor; the sums of `y` and
    // of y * (x - around).
    Kernel end_sum[2], end_maximum[2], end_minimum[2], end_argmax[2], end_argmin[2], end_moments[2], end_products[2];
};

DISPOSESCOPE_KERNELS(Reductions, reductions)

}  // namespace disposescope::kernels
