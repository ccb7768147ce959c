// Reductions treat a C-contiguous array as one of shape (outer, count, inner). There is one result for each
// of `count` channels, over the elements along `outer` and `inner`. Rows are channels of (1, rows, columns),
// columns are channels of (rows, columns, 1).
//
// A channel is divided into parts, for several threads. Each part has a state (for example a sum), and the
// states are joined in order. The division only depends on the shape, so results do not depend on the number
// of threads.

#pragma once

#include <cstddef>

#include "tensor/kernels/inlining.h"

namespace disposescope::kernels {

struct Channels {
    std::ptrdiff_t outer, count, inner;
};

struct Parts {
    std::ptrdiff_t parts;   // of each channel
    std::ptrdiff_t length;  // of a part: contiguous elements if `inner` is large, else slices of `outer`
    std::ptrdiff_t chunks;  // for columns: the number of units that share the rows of a part
    std::ptrdiff_t units, grain;
};

// In this order: the most elements summed in one run, the elements of a piece of work, the columns of a unit,
// and the most parts if channels are columns.
constexpr std::ptrdiff_t run_length = 1 << 15, piece_length = 1 << 15, chunk_columns = 256, most_parts = 16;

DISPOSESCOPE_INLINE bool are_columns(Channels shape) { return shape.inner == 1 && shape.count > 1; }

DISPOSESCOPE_INLINE std::ptrdiff_t ceil_of(std::ptrdiff_t n, std::ptrdiff_t by) { return (n + by - 1) / by; }

DISPOSESCOPE_INLINE Channels simplified(Channels shape) {
    if (shape.count == 1) return {1, 1, shape.outer * shape.inner};
    return shape;
}

// For a simplified shape without zeros.
DISPOSESCOPE_INLINE Parts parts_of(Channels shape) {
    Parts found{1, 1, 1, 1, 1};
    if (are_columns(shape)) {
        const std::ptrdiff_t most = ceil_of(shape.outer * shape.count, piece_length);
        found.chunks = ceil_of(shape.count, chunk_columns);
        const std::ptrdiff_t wanted = ceil_of(most < most_parts ? most : most_parts, found.chunks);
        // Whole groups of 8 rows, which are read together.
        found.length = ceil_of(ceil_of(shape.outer, wanted), 8) * 8;
        found.parts = ceil_of(shape.outer, found.length);
        found.units = found.parts * found.chunks;
        const std::ptrdiff_t columns = shape.count < chunk_columns ? shape.count : chunk_columns;
        found.grain = piece_length / (found.length * columns);
    } else {
        if (shape.inner >= run_length) {
            found.length = run_length;
            found.parts = shape.outer * ceil_of(shape.inner, run_length);
        } else {
            found.length = run_length / shape.inner;
            if (found.length > shape.outer) found.length = shape.outer;
            found.parts = ceil_of(shape.outer, found.length);
        }
        found.units = shape.count * found.parts;
        const std::ptrdiff_t most = shape.inner >= run_length ? run_length : found.length * shape.inner;
        found.grain = piece_length / most;
    }
    if (found.grain < 1) found.grain = 1;
    return found;
}

}  // namespace disposescope::kernels
