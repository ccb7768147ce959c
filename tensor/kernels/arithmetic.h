// Plain arithmetic: one operation for each element.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Arithmetic {
    BinaryLoops add, subtract, multiply, divide, maximum, minimum;
    Loops negative, absolute, square, sqrt, reciprocal, reciprocal_root, relu, hardsigmoid, hardswish;
};

DISPOSESCOPE_KERNELS(Arithmetic, arithmetic)

}  // namespace disposescope::kernels
