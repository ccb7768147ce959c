// Exponentials, logarithms, and the activations made of them.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Exponentials {
    Loops exp, log, tanh, sigmoid, silu, softplus, logsigmoid;
    // Of a gradient and the output (of silu: the input): what goes on to the input.
    Loops tanh_slope, sigmoid_slope, silu_slope, softplus_slope, logsigmoid_slope;
};

DISPOSESCOPE_KERNELS(Exponentials, exponentials)

}  // namespace disposescope::kernels
