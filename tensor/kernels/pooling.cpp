#include "tensor/kernels/pooling.h"

#include "tensor/kernels/elementwise.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

using std::int64_t;
using std::ptrdiff_t;

// A nan wins, the last one of several, as in PyTorch; of equal ones the first.
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
                for (ptrdiff_t w = 0; w < width.outs; ++w) {
                    const ptrdiff_t columns = width.counts[w], step = width.step;
                    ptrdiff_t best = -1;
                    T most = T(0);
                    for (ptrdiff_t i = 0; i < depth.counts[d]; ++i) {
                        const ptrdiff_t slice = (depth.starts[d] + i * depth.step) * height.size;
                        for (ptrdiff_t j = 0; j < height.counts[h]; ++j) {
                            ptrdiff_t at = (slice + height.starts[h] + j * height.step) * width.size + width.starts[w];
                            if (best < 0) {
                                best = at;
                                most = x[at];
                            }
                            for (ptrdiff_t k = 0; k < columns; ++k, at += step) {
                                const T value = x[at];
                                // Not a branch: which one is the largest, nobody can foresee.
                                const bool wins = (value > most) | (value != value);
                                most = wins ? value : most;
                                if (with_places) best = wins ? at : best;
                            }
                        }
                    }
                    *out++ = most;
                    if (with_places) *places++ = best;
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
