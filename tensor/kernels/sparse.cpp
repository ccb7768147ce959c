#include "tensor/kernels/sparse.h"

#include "tensor/kernels/elementwise.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

using std::int64_t;
using std::ptrdiff_t;

template <typename T>
void along(void* given, ptrdiff_t start, ptrdiff_t end) {
    const SparseWork& work = *static_cast<const SparseWork*>(given);
    const T* const weights = static_cast<const T*>(work.weights);
    const int64_t *const starts = work.starts, *const columns = work.columns;
    for (ptrdiff_t block = start; block < end; ++block) {
        const T* const x = static_cast<const T*>(work.x) + block * work.length;
        T* const out = static_cast<T*>(work.out) + block * work.count;
        for (ptrdiff_t i = 0; i < work.count; ++i) {
            int64_t j = starts[i];
            const int64_t last = starts[i + 1];
            // Start with the first product, not with 0, so that a sum of one product keeps -0.
            T sum = j < last ? weights[j] * x[columns[j]] : T(0);
            for (++j; j < last; ++j) sum += weights[j] * x[columns[j]];
            out[i] = sum;
        }
    }
}

template <typename T>
void across(void* given, ptrdiff_t start, ptrdiff_t end) {
    const SparseWork& work = *static_cast<const SparseWork*>(given);
    const T* const weights = static_cast<const T*>(work.weights);
    const ptrdiff_t n = work.behind;
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t block = unit / work.count, row = unit % work.count;
        const T* const x = static_cast<const T*>(work.x) + block * work.length * n;
        T* const out = static_cast<T*>(work.out) + unit * n;
        int64_t j = work.starts[row];
        const int64_t last = work.starts[row + 1];
        if (j == last) {
            for (ptrdiff_t k = 0; k < n; ++k) out[k] = T(0);
            continue;
        }
        const T* first = x + work.columns[j] * n;
        T weight = weights[j++];
        if (j == last) {
            DISPOSESCOPE_INDEPENDENT
            for (ptrdiff_t k = 0; k < n; ++k) out[k] = weight * first[k];
            continue;
        }
        {
            const T* const second = x + work.columns[j] * n;
            const T other = weights[j++];
            DISPOSESCOPE_INDEPENDENT
            for (ptrdiff_t k = 0; k < n; ++k) out[k] = weight * first[k] + other * second[k];
        }
        for (; j + 1 < last; j += 2) {
            first = x + work.columns[j] * n;
            weight = weights[j];
            const T* const second = x + work.columns[j + 1] * n;
            const T other = weights[j + 1];
            DISPOSESCOPE_INDEPENDENT
            for (ptrdiff_t k = 0; k < n; ++k) out[k] = (out[k] + weight * first[k]) + other * second[k];
        }
        if (j < last) {
            first = x + work.columns[j] * n;
            weight = weights[j];
            DISPOSESCOPE_INDEPENDENT
            for (ptrdiff_t k = 0; k < n; ++k) out[k] += weight * first[k];
        }
    }
}

}  // namespace

extern const Sparse sparse_kernels = {
    {along<float>, along<double>},
    {across<float>, across<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
