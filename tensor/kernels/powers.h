// Powers by one exponent for all elements: whole ones by products, half ones by roots.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Powers {
    // By `number`, a whole number from -64 to 64.
    Loops whole;
    // The exponents 3, 0.5, 1.5 and -0.5.
    Loops cube, half, three_halves, minus_half;
    // Of a gradient and the input, 3 x**2 and `number` x, times the gradient.
    Loops cube_slope, product_with_number;
};

DISPOSESCOPE_KERNELS(Powers, powers)

}  // namespace disposescope::kernels
