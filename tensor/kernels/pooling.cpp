#include "tensor/kernels/pooling.h"

#include "tensor/kernels/elementwise.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

using std::int64_t;
using std::ptrdiff_t;

// Return whether `value` replaces the maximum `most`. As in PyTorch, each nan does, and an equal value does
// not. Compute it without a branch, which the processor could not predict.
template <typename T>
DISPOSESCOPE_INLINE bool wins(T value, T most) {
    return (value > most) | (value != value);
}

// Compute the maximum of the window of one output, which begins at `starts` in the three dimensions.
template <typename T, bool with_places>
inline void one(const LargestWork& work, const T* x, ptrdiff_t d, ptrdiff_t h, ptrdiff_t w, T* out, int64_t* place) {
    const WindowAxis &depth = work.axes[0], &height = work.axes[1], &width = work.axes[2];
    ptrdiff_t best = (depth.starts[d] * height.size + height.starts[h]) * width.size + width.starts[w];
    T most = x[best];
    for (ptrdiff_t i = 0; i < depth.counts[d]; ++i) {
        const ptrdiff_t slice = (depth.starts[d] + i * depth.step) * height.size;
        for (ptrdiff_t j = 0; j < height.counts[h]; ++j) {
            ptrdiff_t at = (slice + height.starts[h] + j * height.step) * width.size + width.starts[w];
            for (ptrdiff_t k = 0; k < width.counts[w]; ++k, at += width.step) {
                const bool is_larger = wins(x[at], most);
                most = is_larger ? x[at] : most;
                best = is_larger ? at : best;
            }
        }
    }
    *out = most;
    if (with_places) *place = best;
}

// The most outputs of a row that `several` computes.
constexpr ptrdiff_t most_at_once = 128;

// An index into a plane, with as many bits as an element, so that both use the same mask.
template <typename T>
struct Place;
template <>
struct Place<float> {
    using type = std::int32_t;
};
template <>
struct Place<double> {
    using type = std::int64_t;
};

template <typename T, bool with_places, ptrdiff_t known_stride>
inline void compare(
    const T* x, ptrdiff_t at, ptrdiff_t given_stride, ptrdiff_t count, T* most, typename Place<T>::type* best) {
    using P = typename Place<T>::type;
    const ptrdiff_t stride = known_stride != 0 ? known_stride : given_stride;
    const T* const values = x + at;
    const P first = static_cast<P>(at), by = static_cast<P>(stride);
    DISPOSESCOPE_INDEPENDENT
    for (ptrdiff_t c = 0; c < count; ++c) {
        const T value = values[c * stride];
        const bool is_larger = wins(value, most[c]);
        most[c] = is_larger ? value : most[c];
        if (with_places) best[c] = is_larger ? static_cast<P>(first + static_cast<P>(c) * by) : best[c];
    }
}

// Compute `count` windows of a row, from number `w` on, at equal distances.
template <typename T, bool with_places>
inline void several(
    const LargestWork& work, const T* x, ptrdiff_t d, ptrdiff_t h, ptrdiff_t w, ptrdiff_t count, T* out, int64_t* places) {
    const WindowAxis &depth = work.axes[0], &height = work.axes[1], &width = work.axes[2];
    const ptrdiff_t stride = width.stride;
    T most[most_at_once];
    typename Place<T>::type best[most_at_once];
    const ptrdiff_t start = (depth.starts[d] * height.size + height.starts[h]) * width.size + width.starts[w];
    for (ptrdiff_t c = 0; c < count; ++c) {
        most[c] = x[start + c * stride];
        best[c] = static_cast<typename Place<T>::type>(start + c * stride);
    }
    for (ptrdiff_t i = 0; i < depth.counts[d]; ++i) {
        const ptrdiff_t slice = (depth.starts[d] + i * depth.step) * height.size;
        for (ptrdiff_t j = 0; j < height.counts[h]; ++j) {
            ptrdiff_t at = (slice + height.starts[h] + j * height.step) * width.size + width.starts[w];
            for (ptrdiff_t k = 0; k < width.kernel; ++k, at += width.step) {
                if (stride == 1) compare<T, with_places, 1>(x, at, stride, count, most, best);
                else if (stride == 2) compare<T, with_places, 2>(x, at, stride, count, most, best);
                else compare<T, with_places, 0>(x, at, stride, count, most, best);
            }
        }
    }
    for (ptrdiff_t c = 0; c < count; ++c) out[c] = most[c];
    if (with_places) {
        for (ptrdiff_t c = 0; c < count; ++c) places[c] = best[c];
    }
}

template <typename T, bool with_places>
void largest_of(const LargestWork& work, ptrdiff_t start, ptrdiff_t end) {
    const WindowAxis &depth = work.axes[0], &height = work.axes[1], &width = work.axes[2];
    const ptrdiff_t size = depth.size * height.size * width.size, outs = depth.outs * height.outs * width.outs;
    for (ptrdiff_t plane = start; plane < end; ++plane) {
        const T* const x = static_cast<const T*>(work.x) + plane * size;
        T* out = static_cast<T*>(work.out) + plane * outs;
        int64_t* places = with_places ? work.places + plane * outs : nullptr;
        for (ptrdiff_t d = 0; d < depth.outs; ++d) {
            for (ptrdiff_t h = 0; h < height.outs; ++h) {
                for (ptrdiff_t w = 0; w < width.outs;) {
                    const ptrdiff_t left = w >= width.low && w < width.high ? width.high - w : 1;
                    const ptrdiff_t count = left < most_at_once ? left : most_at_once;
                    if (count > 1) several<T, with_places>(work, x, d, h, w, count, out, places);
                    else one<T, with_places>(work, x, d, h, w, out, places);
                    w += count;
                    out += count;
                    if (with_places) places += count;
                }
            }
        }
    }
}

template <typename T>
void largest(void* given, ptrdiff_t start, ptrdiff_t end) {
    const LargestWork& work = *static_cast<const LargestWork*>(given);
    if (work.places == nullptr) largest_of<T, false>(work, start, end);
    else largest_of<T, true>(work, start, end);
}

template <typename T>
void take(void* given, ptrdiff_t start, ptrdiff_t end) {
    const PlacesWork& work = *static_cast<const PlacesWork*>(given);
    for (ptrdiff_t plane = start; plane < end; ++plane) {
        const int64_t* const places = work.places + plane * work.count;
        const T* const x = static_cast<const T*>(work.x) + plane * work.size;
        T* const out = static_cast<T*>(work.out) + plane * work.count;
        for (ptrdiff_t i = 0; i < work.count; ++i) out[i] = x[places[i]];
    }
}

template <typename T>
void add(void* given, ptrdiff_t start, ptrdiff_t end) {
    const PlacesWork& work = *static_cast<const PlacesWork*>(given);
    for (ptrdiff_t plane = start; plane < end; ++plane) {
        const int64_t* const places = work.places + plane * work.count;
        const T* const x = static_cast<const T*>(work.x) + plane * work.count;
        T* const out = static_cast<T*>(work.out) + plane * work.size;
        for (ptrdiff_t i = 0; i < work.size; ++i) out[i] = T(0);
        for (ptrdiff_t i = 0; i < work.count; ++i) out[places[i]] += x[i];
    }
}

}  // namespace

extern const Pooling pooling_kernels = {
    {largest<float>, largest<double>},
    {take<float>, take<double>},
    {add<float>, add<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
