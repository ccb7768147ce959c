// Gather of patches as columns of matrices, and scatter-add of such columns, for each instruction set
// (simd.h).

#pragma once

#include <cstddef>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// One of three spatial dimensions: patch i begins at i * stride - before, and its elements are `dilation`
// apart. Elements outside the input, which has `size` elements, are zeros. The work covers `outs` patches,
// from number `top` on.
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
    // For floats and doubles. A unit of `gather` is one element of the kernel in one channel; a unit of
    // `scatter`, which adds to `x`, is a channel.
    Kernel gather[2], scatter[2];
};

DISPOSESCOPE_KERNELS(Patches, patches)

}  // namespace disposescope::kernels
