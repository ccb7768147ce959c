// Layer, RMS and batch normalization with their gradients, for each instruction set (simd.h).

#pragma once

#include "tensor/kernels/axes.h"
#include "tensor/kernels/channels.h"
#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Arrays of one dtype. Missing arrays are null.
struct RowNormWork {
    std::ptrdiff_t rows, length;
    std::ptrdiff_t grain;  // rows in a piece
    const void* x;
    const void* gradient;  // backward: of the output
    const void* weight;    // one value for each column, like the bias
    const void* bias;
    void* out;       // forward: the output; backward: the gradient of `x`
    void* means;     // one for each row; null if the mean is not subtracted
    void* inverses;  // one for each row: 1 / sqrt(variance + eps), or 1 / sqrt(mean square + eps)
    double eps;
    void* weight_parts;  // backward: a row of partial sums of the gradient for each piece
    void* bias_parts;
    void* weight_gradient;
    void* bias_gradient;
};

// The arguments for channels. `x`, `gradient` and `out` have one shape, the others one value per channel.
// Missing arrays are null.
struct ChannelNormWork {
    Channels shape;
    const void* x;
    const void* gradient;  // backward: of the output
    void* out;             // forward: the output; backward: the gradient of `x`
    const void* means;
    const void* inverses;  // 1 / sqrt(variance + eps)
    const void* weight;
    const void* bias;
    // Backward, if `means` and `inverses` were computed from `x` itself: the sum of the gradient, the sum of
    // the gradient times the normalized `x`, and 1 / the number of elements in these sums.
    const void* sums;
    const void* products;
    double share;
};

constexpr std::ptrdiff_t rows_of_chunk = 8;

// The arguments of `inverses`, with one value for each channel.
struct InversesWork {
    const void* variances;
    void* out;
    double eps;
};

struct Normalization {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Process the rows from `start` to `end`. `sum_row_parts` adds the parts of the gradients of weight and
    // bias, for the columns from `start` to `end`.
    Kernel rows[2], rows_backward[2], sum_row_parts[2];
    // out = 1 / sqrt(variances + eps)
    Kernel inverses[2];
    // Process the segments from `start` to `end`; there are outer * count. If channels are columns, process
    // chunks of columns, with `rows_of_chunk` rows each.
    Kernel channels[2], channels_backward[2];
};

DISPOSESCOPE_KERNELS(Normalization, normalization)

}  // namespace disposescope::kernels
