// Update rules of optimizers. Each is one pass over a parameter, its gradient and its state; see simd.h.
//
// A rule's numbers, such as the learning rate, are rounded to the parameter's type as by NumPy. Each loop
// does the same operations as the plain formula of the optimizer (nn/optim), so both give the same bits.

#pragma once

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

enum : int { most_state = 3, most_numbers = 8 };

// A parameter, its gradient and its state. No two of these arrays overlap, even of different rows.
struct UpdateRow {
    void* parameter;
    const void* gradient;
    void* state[most_state];
    // The number of elements in all rows before this one.
    std::ptrdiff_t start;
};

// `count` rows that are updated with the same numbers. One more row follows, which only has `start`, the
// total number of elements.
struct UpdateRows {
    const UpdateRow* rows;
    std::ptrdiff_t count;
    int state_count;
    double numbers[most_numbers];
};

// Update the elements from `start` to `end` of an `UpdateRows`.
typedef void (*Update)(void* rows, std::ptrdiff_t start, std::ptrdiff_t end);

struct Updates {
    Update sgd_single, sgd_double;
    Update adam_single, adam_double;
    Update rmsprop_single, rmsprop_double;
};

DISPOSESCOPE_KERNELS(Updates, updates)

}  // namespace disposescope::kernels
