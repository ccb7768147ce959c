// Powers with one exponent for all elements: integers by products, halves by roots.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Powers {
    // The exponent is `number`, an integer from -64 to 64.
    Loops whole;
    // The exponents 3, 0.5, 1.5 and -0.5.
    Loops cube, half, three_halves, minus_half;
    // Functions of a gradient and the input. They return gradient * 3 * x**2, and gradient * `number` * x.
    Loops cube_slope, product_with_number;
};

DISPOSESCOPE_KERNELS(Powers, powers)

}  // namespace disposescope::kernels
