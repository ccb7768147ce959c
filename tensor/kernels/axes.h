// What a kernel along an axis works on: an array of C order, seen as `before` blocks of `length` rows of `behind`
// elements, the axis being that of the rows. Along the last axis `behind` is 1: the elements of one sum lie side
// by side. Along others the elements of neighbouring sums do, and kernels work on so many columns at once.

#pragma once

#include <cstddef>

#include "tensor/kernels/inlining.h"

namespace disposescope::kernels {

struct Axis {
    std::ptrdiff_t before, length, behind;
};

// Of columns, the bytes of a row that are worked on at once: running values for them stay in the first cache.
constexpr std::ptrdiff_t chunk_bytes = 512;

// How the work is cut for threads: into so many units (rows, or chunks of columns), `grain` of them a piece. It
// follows from sizes alone, and `elements` are what one piece should have at least.
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
