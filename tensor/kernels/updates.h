// What optimizers do to parameters: each rule is one pass over a parameter, its gradient and its state; see simd.h.
//
// A rule's numbers come as doubles and are rounded to the parameter's type, as NumPy rounds Python's numbers. Each
// loop does what the plain formula beside the optimizer (nn/optim) does, operation by operation, so both give the
// same to the last bit.

#pragma once

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

enum : int { most_state = 3, most_numbers = 8 };

// A parameter, its gradient and what the optimizer remembers of it. None overlaps another, in other rows neither.
struct UpdateRow {
    void* parameter;
    const void* gradient;
    void* state[most_state];
    // How many elements the rows before have together.
    std::ptrdiff_t start;
};

// Rows that the same numbers update. `start` of the last row, which is no parameter, is the number of elements.
struct UpdateRows {
    const UpdateRow* rows;
    std::ptrdiff_t count;
    int state_count;
    double numbers[most_numbers];
};

// Update the elements from `start` to `end` of all those in an `UpdateRows`.
typedef void (*Update)(void* rows, std::ptrdiff_t start, std::ptrdiff_t end);

struct Updates {
    Update sgd_single, sgd_double;
    Update adam_single, adam_double;
    Update rmsprop_single, rmsprop_double;
};

DISPOSESCOPE_KERNELS(Updates, updates)

}  // namespace disposescope::kernels
