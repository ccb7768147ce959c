// Elementwise choice between two values of any type: the bits are copied.

#pragma once

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

struct Choice {
    const unsigned char* condition;
    std::ptrdiff_t conditions;  // the number of conditions; they repeat after the last one
    const void* a;
    const void* b;
    void* out;
    std::ptrdiff_t step_of_a;  // in elements; 0 for a single value
    std::ptrdiff_t step_of_b;
};

struct Choices {
    // For elements of 1, 2, 4 and 8 bytes.
    Loop choose[4];
    // For floats and doubles: a where b is not 0, else 0.
    BinaryLoops keep_nonzero;
};

DISPOSESCOPE_KERNELS(Choices, choices)

}  // namespace disposescope::kernels
