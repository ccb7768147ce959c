// Layer, RMS and batch normalization with their gradients, for each instruction set (simd.h).

#pragma once

#include "tensor/kernels/axes.h"
#include "tensor/kernels/channels.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Arrays of one dtype; those that are not there are null.
struct RowNormWork {
    std::ptrdiff_t rows, length;
    std::ptrdiff_t grain;  // rows of a piece
    const void* x;
    const void* gradient;  // backward: of the output
    const void* weight;    // one for each column, as is the bias
    const void* bias;
    void* out;       // forward: the output; backward: the gradient of `x`
    void* means;     // one for each row; null where rows are normalized around 0
    void* inverses;  // 1 / deviation, one for each row
    double eps;
    void* weight_parts;  // backward: for each piece a row of sums, of which the gradients are made
    void* bias_parts;
    void* weight_gradient;
    void* bias_gradient;
};

// Of channels, with `factors` for each of them.
struct ChannelNormWork {
    Channels shape;
    const void* x;
    const void* gradient;
    void* out;
    const void* around;
    const void* factors[3];
};

constexpr std::ptrdiff_t rows_of_unit = 8;

struct Normalization {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Rows from `start` to `end`; the last of them sums up the parts of columns from `start` to `end`.
    Kernel rows[2], rows_backward[2], rows_end[2];
    // Segments of channels (outer times count), or where inner is 1 chunks of columns of `rows_of_unit` rows, from
    // `start` to `end`:
    // out = (x - around) * factors[0] + factors[1]
    Kernel channels[2];
    // out = gradient * factors[0] - (x - around) * factors[1] - factors[2]
    Kernel channels_backward[2];
};

DISPOSESCOPE_KERNELS(Normalization, normalization)

}  // namespace disposescope::kernels
