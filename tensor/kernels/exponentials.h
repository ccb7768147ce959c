// Exponentials, logarithms, and activations based on them.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Exponentials {
    Loops exp, log, tanh, sigmoid, silu, softplus, logsigmoid;
    // Functions of a gradient and the output (for silu, the input). They return the gradient of the input.
    Loops tanh_slope, sigmoid_slope, silu_slope, softplus_slope, logsigmoid_slope;
};

DISPOSESCOPE_KERNELS(Exponentials, exponentials)

}  // namespace disposescope::kernels
