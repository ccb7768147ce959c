// What kernels of rows are made of: sums and maps over one row, which the cache has.

#pragma once

#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// Elements that are added up as floats: each lane has 16 of them or so, and the sums of blocks are doubles.
constexpr ptrdiff_t block = 1024;

// The sums of what `value` gives for the place of a pack and the number of elements that are there, at most so many:
// `value(i, left, sums)` adds to `sums`, two packs for each of `count` sums.
template <int count, typename T, typename Value>
inline void add_up(ptrdiff_t n, double* totals, Value value) {
    using P = Pack<T>;
    for (int s = 0; s < count; ++s) totals[s] = 0;
    for (ptrdiff_t start = 0; start < n; start += block) {
        const ptrdiff_t end = n - start < block ? n : start + block;
        P sums[2][count];
        for (int k = 0; k < 2; ++k)
            for (int s = 0; s < count; ++s) sums[k][s] = P::of(0);
        ptrdiff_t i = start;
        for (; i + 2 * P::size <= end; i += 2 * P::size) {
            value(i, P::size, sums[0]);
            value(i + P::size, P::size, sums[1]);
        }
        for (; i < end; i += P::size) value(i, end - i, sums[0]);
        for (int s = 0; s < count; ++s) totals[s] += sum(sums[0][s] + sums[1][s]);
    }
}

// Calls f(i, left) for each place where a pack begins, with the number of elements from there on.
template <typename T, typename Function>
inline void each_pack(ptrdiff_t n, Function f) {
    ptrdiff_t i = 0;
    for (; i + Pack<T>::size <= n; i += Pack<T>::size) f(i, Pack<T>::size);
    if (i < n) f(i, n - i);
}

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
