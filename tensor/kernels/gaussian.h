// The error function, and activations by the normal distribution.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Gaussian {
    Loops erf, erfc, gelu, gelu_by_tanh;
    // Of a gradient and the input: what goes on to the input.
    Loops erf_slope, gelu_slope, gelu_by_tanh_slope;
};

DISPOSESCOPE_KERNELS(Gaussian, gaussian)

}  // namespace disposescope::kernels
