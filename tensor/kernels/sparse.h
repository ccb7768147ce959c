// A sparse matrix times an array, along one of the array's axes, for each instruction set (simd.h).

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// The matrix has `count` rows and `length` columns: row i is the entries from starts[i] to starts[i + 1], each a
// column and a weight. The array has C order, seen as blocks of `length` rows of `behind` elements; what comes out
// has blocks of `count` such rows. Entries are added up in their order, so no bit depends on threads.
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
    // Where `behind` is 1: a unit is a block. Else: a unit is a row of the output. Of floats, of doubles.
    Kernel along[2], across[2];
};

DISPOSESCOPE_KERNELS(Sparse, sparse)

}  // namespace disposescope::kernels
