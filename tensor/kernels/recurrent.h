// The pointwise part of one step of recurrent cells, and of its gradient, for each instruction set (simd.h).

#pragma once

#include <cstddef>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Arrays of one dtype, row by row: one sequence a row. A cell with `hidden` values has blocks of so many in each
// row of `gates`: 1 (plain), 4 (LSTM: in, forget, new, out) or 3 (GRU: reset, update, new).
struct RecurrentWork {
    std::ptrdiff_t hidden;
    // The state before the step: rows up to this one are in `previous`, from there on in `initial`.
    std::ptrdiff_t from_previous;
    const void* previous;
    const void* initial;
    void* gates;              // forward: what comes from the input, then the activations; backward: these
    const void* recurrent;    // what comes from the state, in the same blocks
    const void* bias;         // one row; that of a GRU has a fourth block, for its state alone
    void* cell;               // of an LSTM the cell state; of a GRU what the reset gate scales
    void* out;                // the new state; a plain cell leaves it in `gates`
    // Backward
    const void* gradient;     // of `out`, by what follows in the layer above, rows so many values apart
    std::ptrdiff_t gradient_apart;
    const void* carried;      // of `out`, by the next step's product, likewise
    std::ptrdiff_t carried_apart;
    void* state_gradient;     // LSTM: of the cell state; GRU: of `out`, past the next step's product; both ways
    void* gates_gradient;
    void* recurrent_gradient; // of a GRU, whose two products have different ones
};

struct Recurrent {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // By the cell: tanh, ReLU, LSTM, GRU; of floats, of doubles.
    Kernel forward[4][2], backward[4][2];
};

DISPOSESCOPE_KERNELS(Recurrent, recurrent)

}  // namespace disposescope::kernels
