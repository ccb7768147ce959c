// The largest element of each window, and where it lies, for each instruction set (simd.h).

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Planes of three dimensions each, in C order. Along each dimension, output i has a window that starts at
// starts[i], has counts[i] elements, which lie `step` apart; all within the input, none without elements.
// From `low` to `high` windows lie `stride` apart, and have `kernel` elements each: most do, and are done together.
struct WindowAxis {
    std::ptrdiff_t size, outs, step;
    std::ptrdiff_t low, high, stride, kernel;
    const std::int64_t* starts;
    const std::int64_t* counts;
};

struct LargestWork {
    WindowAxis axes[3];
    const void* x;
    void* out;
    std::int64_t* places;  // in the plane; null where nobody asks
};

// Elements of planes by their places: `count` of them for each plane of `size` elements.
struct PlacesWork {
    std::ptrdiff_t count, size;
    const std::int64_t* places;
    const void* x;
    void* out;
};

struct Pooling {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // A unit is a plane; of floats, of doubles.
    Kernel largest[2], take[2], add[2];
};

DISPOSESCOPE_KERNELS(Pooling, pooling)

}  // namespace disposescope::kernels
