// The elementwise part of one step of recurrent cells, and its gradient, for each instruction set (simd.h).

#pragma once

#include <cstddef>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Arrays of one dtype, with a row for each sequence. A cell with `hidden` values has blocks of that size in
// each row of `gates`: 1 (plain), 4 (LSTM: input, forget, new, output) or 3 (GRU: reset, update, new).
struct RecurrentWork {
    std::ptrdiff_t hidden;
    // The state before the step: rows before this index are in `previous`, the others in `initial`.
    std::ptrdiff_t from_previous;
    const void* previous;
    const void* initial;
    void* gates;              // forward: in, products with the input; out, activations; backward: activations
    const void* recurrent;    // the products with the state, in the same blocks
    const void* bias;         // one row; a GRU has a fourth block, for the state only
    void* cell;               // LSTM: the cell state; GRU: the values that the reset gate scales
    void* out;                // the new state; a plain cell writes it to `gates`
    // Backward
    const void* gradient;     // of `out`, from the layer above, with row stride `gradient_stride`
    std::ptrdiff_t gradient_stride;
    const void* carried;      // of `out`, from the next step's product, with row stride `carried_stride`
    std::ptrdiff_t carried_stride;
    void* state_gradient;     // in and out; LSTM: of the cell state; GRU: of `out`, not through the product
    void* gates_gradient;
    void* recurrent_gradient; // only for a GRU, where the two products have different gradients
};

struct Recurrent {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // By cell (tanh, ReLU, LSTM, GRU), then by type (float, double).
    Kernel forward[4][2], backward[4][2];
};

DISPOSESCOPE_KERNELS(Recurrent, recurrent)

}  // namespace disposescope::kernels
