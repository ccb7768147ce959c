// The maximum of each window, and its index, for each instruction set (simd.h).

#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// C-contiguous planes with three dimensions. Along each dimension, the window of output i has counts[i]
// elements from starts[i] on, `step` apart, all within the input; no window is empty. The windows from `low`
// to `high`, which are most windows, are `stride` apart and have `kernel` elements each. They are computed
// together.
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
    std::int64_t* places;  // indices into the plane; null if not needed
};

// Elements of planes at given indices: `count` of them for each plane of `size` elements.
struct PlacesWork {
    std::ptrdiff_t count, size;
    const std::int64_t* places;
    const void* x;
    void* out;
};

struct Pooling {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // A unit is a plane. For floats and doubles.
    Kernel largest[2], take[2], add[2];
};

DISPOSESCOPE_KERNELS(Pooling, pooling)

}  // namespace disposescope::kernels
