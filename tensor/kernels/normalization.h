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

// Of channels, with one value of each for a channel; those that are not there are null.
struct ChannelNormWork {
    Channels shape;
    const void* x;
    const void* gradient;  // backward: of the output
    void* out;             // forward: the output; backward: the gradient of `x`
    const void* means;
    const void* inverses;  // 1 / deviation
    const void* weight;
    const void* bias;
    // Backward, where means and deviations are those of `x` itself: of the gradient the sum, and that of it times
    // the normalized `x`; one over the elements that these are of.
    const void* sums;
    const void* products;
    double share;
};

constexpr std::ptrdiff_t rows_of_chunk = 8;

// Of `out`, one value a channel.
struct InversesWork {
    const void* variances;
    void* out;
    double eps;
};

struct Normalization {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Rows from `start` to `end`; the last of them sums up the parts of columns from `start` to `end`.
    Kernel rows[2], rows_backward[2], rows_end[2];
    // out = 1 / sqrt(variances + eps)
    Kernel inverses[2];
    // Segments of channels (outer times count), or where inner is 1 chunks of columns of `rows_of_chunk` rows, from
    // `start` to `end`.
    Kernel channels[2], channels_backward[2];
};

DISPOSESCOPE_KERNELS(Normalization, normalization)

}  // namespace disposescope::kernels
