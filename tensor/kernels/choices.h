// Choosing between two values for each element, whatever they are: bits are copied.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Choice {
    const unsigned char* condition;
    std::ptrdiff_t conditions;  // how many there are; after the last one they repeat
    const void* a;
    const void* b;
    void* out;
    std::ptrdiff_t step_of_a;  // in elements: 0 where one value is for all
    std::ptrdiff_t step_of_b;
};

struct Choices {
    // Of elements of 1, 2, 4 and 8 bytes.
    Loop choose[4];
    // Of floats and doubles: the first where the second is not 0, else 0.
    BinaryLoops keep_nonzero;
};

DISPOSESCOPE_KERNELS(Choices, choices)

}  // namespace disposescope::kernels
