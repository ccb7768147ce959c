// Product of a sparse matrix and an array, along one axis of the array, for each instruction set (simd.h).

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// The matrix has `count` rows and `length` columns. Row i has the entries from starts[i] to starts[i + 1],
// each with a column and a weight. The array is C-contiguous, and has blocks of `length` rows of `behind`
// elements; the output has blocks of `count` such rows. Entries are summed in order, so results do not depend
// on the number of threads.
struct SparseWork {
    std::ptrdiff_t count, length, behind;
    const std::int64_t* starts;
    const std::int64_t* columns;
    const void* weights;
    const void* x;
    void* out;
};

struct Sparse {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // For floats and doubles. `along` is for `behind` of 1, and its unit is a block; a unit of `across` is a
    // row of the output.
    Kernel along[2], across[2];
};

DISPOSESCOPE_KERNELS(Sparse, sparse)

}  // namespace disposescope::kernels
