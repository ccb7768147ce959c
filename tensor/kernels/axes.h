// A kernel along an axis treats a C-contiguous array as one of shape (before, length, behind), and works
// along `length`. For the last axis `behind` is 1, and the elements of one sum are contiguous. For other
// axes, kernels process several columns at once.

#pragma once

#include <cstddef>

#include "tensor/kernels/inlining.h"

namespace disposescope::kernels {

struct Axis {
    std::ptrdiff_t before, length, behind;
};

// The bytes of a row that kernels along columns process at once, so that their sums and maxima stay in the
// first-level cache.
constexpr std::ptrdiff_t chunk_bytes = 512;

// The division of work for threads: `units` (rows, or chunks of columns), `grain` of them in a piece. The
// division only depends on the sizes. A piece has up to `elements` elements, or one unit if a unit has more.
struct Cut {
    std::ptrdiff_t units, grain;
};

DISPOSESCOPE_INLINE std::ptrdiff_t chunks_of(std::ptrdiff_t columns, std::ptrdiff_t itemsize) {
    const std::ptrdiff_t most = chunk_bytes / itemsize;
    return (columns + most - 1) / most;
}

DISPOSESCOPE_INLINE Cut cut_of(Axis axis, std::ptrdiff_t itemsize, std::ptrdiff_t elements) {
    std::ptrdiff_t units = axis.before, each = axis.length;
    if (axis.behind != 1) {
        units *= chunks_of(axis.behind, itemsize);
        const std::ptrdiff_t most = chunk_bytes / itemsize;
        each *= axis.behind < most ? axis.behind : most;
    }
    const std::ptrdiff_t grain = each < elements ? elements / (each > 0 ? each : 1) : 1;
    return {units, grain};
}

}  // namespace disposescope::kernels
