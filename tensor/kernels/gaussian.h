// The error function, and activations based on the normal distribution.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Gaussian {
    Loops erf, erfc, gelu, gelu_by_tanh;
    // Functions of a gradient and the input. They return the gradient of the input.
    Loops erf_slope, gelu_slope, gelu_by_tanh_slope;
};

DISPOSESCOPE_KERNELS(Gaussian, gaussian)

}  // namespace disposescope::kernels
