// Patches of arrays as the columns of matrices, and such columns added up, for each instruction set (simd.h).

#pragma once

#include <cstddef>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Along one of three dimensions of space: patch i begins at i * stride - before, and its elements lie `dilation`
// apart; where they lie outside of the input, which has `size` elements, they are zeros. The work is on `outs`
// patches, from number `top` on.
struct PatchAxis {
    std::ptrdiff_t size, outs, top, kernel, stride, dilation, before;
};

// `x` has shape (samples, channels, *sizes), `columns` (channels, *kernel, samples, *outs), both in C order.
struct PatchWork {
    PatchAxis axes[3];
    std::ptrdiff_t samples, channels;
    void* x;
    void* columns;
};

struct Patches {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Of floats, of doubles. A unit of `gather` is one element of the kernel of one channel, one of `scatter`, which
    // adds to `x`, is a channel.
    Kernel gather[2], scatter[2];
};

DISPOSESCOPE_KERNELS(Patches, patches)

}  // namespace disposescope::kernels
