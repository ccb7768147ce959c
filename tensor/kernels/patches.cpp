#include "tensor/kernels/patches.h"

#include "tensor/kernels/elementwise.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

using std::ptrdiff_t;

// Along one dimension, element k of patch i is element first + i * stride of the input. It is inside the
// input for the patches from `low` to `high`.
struct Inside {
    ptrdiff_t first, low, high;
};

DISPOSESCOPE_INLINE Inside inside(const PatchAxis& axis, ptrdiff_t k) {
    const ptrdiff_t first = axis.top * axis.stride - axis.before + k * axis.dilation;
    ptrdiff_t low = first < 0 ? (-first + axis.stride - 1) / axis.stride : 0;
    ptrdiff_t high = first < axis.size ? (axis.size - 1 - first) / axis.stride + 1 : 0;
    if (low > axis.outs) low = axis.outs;
    if (high > axis.outs) high = axis.outs;
    if (high < low) high = low;
    return {first, low, high};
}

template <typename T>
inline void fill(T* out, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; ++i) out[i] = T(0);
}

template <typename T>
void gather(void* given, ptrdiff_t start, ptrdiff_t end) {
    const PatchWork& work = *static_cast<const PatchWork*>(given);
    const PatchAxis &depth = work.axes[0], &height = work.axes[1], &width = work.axes[2];
    const ptrdiff_t elements = depth.kernel * height.kernel * width.kernel, row = width.outs;
    const ptrdiff_t plane = depth.size * height.size * width.size, slice = height.outs * row;
    const ptrdiff_t stride = width.stride;
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t channel = unit / elements, k = unit % elements;
        const Inside in_depth = inside(depth, k / (height.kernel * width.kernel));
        const Inside in_height = inside(height, k / width.kernel % height.kernel);
        const Inside in_width = inside(width, k % width.kernel);
        T* out = static_cast<T*>(work.columns) + unit * work.samples * depth.outs * slice;
        for (ptrdiff_t sample = 0; sample < work.samples; ++sample) {
            const T* const x = static_cast<const T*>(work.x) + (sample * work.channels + channel) * plane;
            for (ptrdiff_t d = 0; d < depth.outs; ++d, out += slice) {
                if (d < in_depth.low || d >= in_depth.high) {
                    fill(out, slice);
                    continue;
                }
                fill(out, in_height.low * row);
                const T* const from = x + (in_depth.first + d * depth.stride) * height.size * width.size;
                for (ptrdiff_t h = in_height.low; h < in_height.high; ++h) {
                    const T* const source = from + (in_height.first + h * height.stride) * width.size + in_width.first;
                    T* const target = out + h * row;
                    for (ptrdiff_t w = 0; w < in_width.low; ++w) target[w] = T(0);
                    if (stride == 1) {
                        DISPOSESCOPE_INDEPENDENT
                        for (ptrdiff_t w = in_width.low; w < in_width.high; ++w) target[w] = source[w];
                    } else {
                        DISPOSESCOPE_INDEPENDENT
                        for (ptrdiff_t w = in_width.low; w < in_width.high; ++w) target[w] = source[w * stride];
                    }
                    for (ptrdiff_t w = in_width.high; w < row; ++w) target[w] = T(0);
                }
                fill(out + in_height.high * row, (height.outs - in_height.high) * row);
            }
        }
    }
}

template <typename T>
void scatter(void* given, ptrdiff_t start, ptrdiff_t end) {
    const PatchWork& work = *static_cast<const PatchWork*>(given);
    const PatchAxis &depth = work.axes[0], &height = work.axes[1], &width = work.axes[2];
    const ptrdiff_t elements = depth.kernel * height.kernel * width.kernel, row = width.outs;
    const ptrdiff_t plane = depth.size * height.size * width.size, slice = height.outs * row;
    const ptrdiff_t stride = width.stride;
    for (ptrdiff_t channel = start; channel < end; ++channel) {
        for (ptrdiff_t sample = 0; sample < work.samples; ++sample) {
            // Add all elements of the kernel to one plane, while the plane is in the cache.
            T* const x = static_cast<T*>(work.x) + (sample * work.channels + channel) * plane;
            for (ptrdiff_t k = 0; k < elements; ++k) {
                const Inside in_depth = inside(depth, k / (height.kernel * width.kernel));
                const Inside in_height = inside(height, k / width.kernel % height.kernel);
                const Inside in_width = inside(width, k % width.kernel);
                const T* const shares = static_cast<const T*>(work.columns) +
                                        ((channel * elements + k) * work.samples + sample) * depth.outs * slice;
                for (ptrdiff_t d = in_depth.low; d < in_depth.high; ++d) {
                    T* const to = x + (in_depth.first + d * depth.stride) * height.size * width.size;
                    for (ptrdiff_t h = in_height.low; h < in_height.high; ++h) {
                        const T* const source = shares + d * slice + h * row;
                        T* const target = to + (in_height.first + h * height.stride) * width.size + in_width.first;
                        if (stride == 1) {
                            DISPOSESCOPE_INDEPENDENT
                            for (ptrdiff_t w = in_width.low; w < in_width.high; ++w) target[w] += source[w];
                        } else {
                            DISPOSESCOPE_INDEPENDENT
                            for (ptrdiff_t w = in_width.low; w < in_width.high; ++w) target[w * stride] += source[w];
                        }
                    }
                }
            }
        }
    }
}

}  // namespace

extern const Patches patches_kernels = {
    {gather<float>, gather<double>},
    {scatter<float>, scatter<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
