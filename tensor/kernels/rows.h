// Building blocks for kernels over rows: sums and loops over one row, which is in the cache.

#pragma once

#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// The number of elements to sum as floats. The sums of these blocks are added as doubles.
constexpr ptrdiff_t block = 1024;

// Compute `count` sums over `n` elements. `value(i, left, sums)` adds the values of the pack at index `i` to
// `sums`, an array of `count` packs. If `left` is less than the size of a pack, only `left` elements remain.
template <int count, typename T, typename Value>
DISPOSESCOPE_INLINE void add_up(ptrdiff_t n, double* totals, Value value) {
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

// Call f(i, left) for the index of each pack. `left` is the size of a pack, or the rest for the last pack.
template <typename T, typename Function>
DISPOSESCOPE_INLINE void each_pack(ptrdiff_t n, Function f) {
    ptrdiff_t i = 0;
    for (; i + Pack<T>::size <= n; i += Pack<T>::size) f(i, Pack<T>::size);
    if (i < n) f(i, n - i);
}

// Join the `count` states f(first), f(first + 1), ... pairwise: join each half, then the two results.
template <typename State, typename Function, typename Join>
State by_halves(ptrdiff_t first, ptrdiff_t count, Function f, Join join) {
    if (count == 1) return f(first);
    const ptrdiff_t half = count / 2;
    const State a = by_halves<State>(first, half, f, join);  // first, to read the memory in order
    return join(a, by_halves<State>(first + half, count - half, f, join));
}

// --- Mean and sum of squared deviations

// Mean and sum of squared deviations of `count` elements. `join_moments` joins those of two sets by the
// formula of Chan, Golub and LeVeque (1979). Means are relative to the first element of their channel, so
// they stay precise if all elements are far from 0.
struct Moments {
    double count, mean, squares;
    static DISPOSESCOPE_INLINE Moments load(const double* means, const double* squares, ptrdiff_t at, double count) {
        return {count, means[at], squares[at]};
    }
    DISPOSESCOPE_INLINE void store(double* means, double* all, ptrdiff_t at) const {
        means[at] = mean;
        all[at] = squares;
    }
};

constexpr auto join_moments = [](Moments a, Moments b) DISPOSESCOPE_INLINED {
    const double count = a.count + b.count, distance = b.mean - a.mean, share = b.count / count;
    return Moments{count, a.mean + distance * share, a.squares + b.squares + distance * distance * a.count * share};
};

// Return the moments of values, from the sum and the sum of squares of their deviations from `around`.
DISPOSESCOPE_INLINE Moments moments_around(double around, double sum, double squares, double count) {
    const double distance = sum / count, left = squares - sum * distance;
    return {count, around + distance, left < 0 ? 0 : left};
}

// Sum the deviations of a block from the mean of its first eighth. If this mean differs from the block's mean
// by d, the squared deviations of this eighth alone sum to at least n / 8 * d * d. So the correction
// subtracted at the end, n * d * d, is at most 8 times the result.
template <typename T>
Moments moments_of_block(const T* x, ptrdiff_t n, double origin) {
    using P = Pack<T>;
    if (n > 0 && n <= P::size) {  // a shortcut: 20 ns instead of 35
        const T around = sum(P::load_up_to(x, n)) / static_cast<T>(n);
        const P d = P::load_up_to(x, n, around) - P::of(around);
        return moments_around(around - origin, sum(d), sum(d * d), static_cast<double>(n));
    }
    const ptrdiff_t first = n < block / 8 ? n : block / 8;
    double total, totals[2];
    add_up<1, T>(first, &total, [&](ptrdiff_t i, ptrdiff_t left, P* sums) DISPOSESCOPE_INLINED {
        sums[0] = sums[0] + P::load_up_to(x + i, left);
    });
    const T around = static_cast<T>(total / static_cast<double>(first));
    const P centre = P::of(around);
    add_up<2, T>(n, totals, [&](ptrdiff_t i, ptrdiff_t left, P* sums) DISPOSESCOPE_INLINED {
        const P d = P::load_up_to(x + i, left, around) - centre;
        sums[0] = sums[0] + d;
        sums[1] = fma(d, d, sums[1]);
    });
    return moments_around(around - origin, totals[0], totals[1], static_cast<double>(n));
}

template <typename T>
Moments moments_of_run(const T* x, ptrdiff_t n, double origin) {
    if (n <= block) return moments_of_block(x, n, origin);
    return by_halves<Moments>(
        0, ceil_of(n, block),
        [&](ptrdiff_t i) DISPOSESCOPE_INLINED {
            const ptrdiff_t start = i * block;
            return moments_of_block(x + start, n - start < block ? n - start : block, origin);
        },
        join_moments);
}

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
