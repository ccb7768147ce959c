// Softmax and its kin, for each instruction set (simd.h).

#pragma once

#include "tensor/kernels/axes.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// The arrays that a kernel reads and writes, all of one dtype; those that it does not name are null.
struct SoftmaxWork {
    Axis axis;
    const void* x;         // what the function is of; backward: what it gave
    const void* gradient;  // of the output
    void* out;             // the result, in the shape of `x`; for logsumexp without the axis
};

// Of the cross entropy of each row of `x`, shape (axis.before, axis.length), with a class.
struct CrossEntropyWork {
    Axis axis;
    const void* x;
    // One a row; where one is below 0 or not below axis.length, its loss and its row of the gradient are nan.
    const std::int64_t* classes;
    void* out;                    // forward: the losses, one a row; backward: the gradient, in the shape of `x`
    void* tops;                   // the largest of each row
    void* sums;                   // the sum of exp(x - top) of each row
    double share;                 // backward: what a loss counts, times the gradient of the output
};

// For floats, then for doubles. Each works on the units from `start` to `end` (axes.h).
struct Softmax {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    Kernel softmax[2], log_softmax[2], logsumexp[2], softmax_backward[2], log_softmax_backward[2];
    Kernel cross_entropy[2], cross_entropy_backward[2];
};

DISPOSESCOPE_KERNELS(Softmax, softmax)

}  // namespace disposescope::kernels
