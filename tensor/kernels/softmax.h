// Softmax and related functions, for each instruction set (simd.h).

#pragma once

#include "tensor/kernels/axes.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// The arrays that a kernel reads and writes, all of one dtype. Unused arrays are null.
struct SoftmaxWork {
    Axis axis;
    const void* x;         // forward: the input; backward: the output
    const void* gradient;  // of the output
    void* out;             // the result, with the shape of `x`; for logsumexp without the axis
};

// The cross entropy of each row of `x`, with shape (axis.before, axis.length), and a class.
struct CrossEntropyWork {
    Axis axis;
    const void* x;
    // One for each row. If a class is negative or not below axis.length, the loss and the gradient of its row
    // are nan.
    const std::int64_t* classes;
    void* out;                    // forward: the loss of each row; backward: the gradient of `x`
    void* tops;                   // the maximum of each row
    void* sums;                   // the sum of exp(x - top) of each row
    double loss_gradient;         // backward: the gradient of each loss
};

// For floats, then for doubles. Each function processes the units from `start` to `end` (axes.h).
struct Softmax {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    Kernel softmax[2], log_softmax[2], logsumexp[2], softmax_backward[2], log_softmax_backward[2];
    Kernel cross_entropy[2], cross_entropy_backward[2];
};

DISPOSESCOPE_KERNELS(Softmax, softmax)

}  // namespace disposescope::kernels
