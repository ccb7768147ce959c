// Compiled once for each instruction set; see simd.h.

#include "tensor/kernels/updates.h"

#include <math.h>

#include "tensor/kernels/inlining.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

namespace {

using std::ptrdiff_t;

DISPOSESCOPE_INLINE float root(float x) { return sqrtf(x); }
DISPOSESCOPE_INLINE double root(double x) { return sqrt(x); }

// Like np.maximum: nan if one operand is nan.
template <typename T>
DISPOSESCOPE_INLINE T larger(T a, T b) {
    return a >= b || a != a ? a : b;
}

// Update n elements. `k` has the rule's numbers. `a`, `b` and `c` are its state; some rules use fewer.
template <typename T>
using Loop = void (*)(T* p, const T* g, T* a, T* b, T* c, const T* k, ptrdiff_t n);

enum Momentum { without, plain, nesterov };

template <typename T, bool decays, Momentum momentum>
void sgd(T* __restrict p, const T* __restrict gradient, T* __restrict m, T*, T*, const T* k, ptrdiff_t n) {
    const T rate = k[0], decay = k[1], share = k[2], keeps = k[3], sign = k[5];
    for (ptrdiff_t i = 0; i < n; i++) {
        T g = gradient[i] * sign;
        if (decays) g = p[i] * decay + g;
        if (momentum != without) {
            const T step = m[i] * share + g * keeps;
            m[i] = step;
            g = momentum == nesterov ? g + step * share : step;
        }
        p[i] -= g * rate;
    }
}

template <typename T>
DISPOSESCOPE_INLINE Loop<T> sgd_loop(const UpdateRows& rows) {
    const bool decays = rows.numbers[1] != 0;
    if (rows.state_count == 0) return decays ? sgd<T, true, without> : sgd<T, false, without>;
    if (rows.numbers[4] != 0) return decays ? sgd<T, true, nesterov> : sgd<T, false, nesterov>;
    return decays ? sgd<T, true, plain> : sgd<T, false, plain>;
}

template <typename T, bool decays, bool keeps_largest>
void adam(T* __restrict p, const T* __restrict gradient, T* __restrict m, T* __restrict v, T* __restrict largest,
          const T* k, ptrdiff_t n) {
    const T shrink = k[0], sign = k[1], decay = k[2], first = k[3], stays = k[4], enters = k[5], eps = k[6],
            size = k[7];
    for (ptrdiff_t i = 0; i < n; i++) {
        const T before = p[i] * shrink;
        T g = gradient[i] * sign;
        if (decays) g = g + before * decay;
        const T mean = m[i] + (g - m[i]) * first;
        T square = v[i] * stays + g * g * enters;
        m[i] = mean;
        v[i] = square;
        if (keeps_largest) largest[i] = square = larger(largest[i], square);
        p[i] = before - mean / (root(square) + eps) * size;
    }
}

template <typename T>
DISPOSESCOPE_INLINE Loop<T> adam_loop(const UpdateRows& rows) {
    const bool decays = rows.numbers[2] != 0;
    if (rows.state_count == 3) return decays ? adam<T, true, true> : adam<T, false, true>;
    return decays ? adam<T, true, false> : adam<T, false, false>;
}

template <typename T, bool decays, bool is_centered, bool has_momentum>
void rmsprop(T* __restrict p, const T* __restrict gradient, T* __restrict v, T* __restrict b, T* __restrict c,
             const T* k, ptrdiff_t n) {
    const T sign = k[0], decay = k[1], stays = k[2], enters = k[3], eps = k[4], rate = k[5], share = k[6];
    T* const mean = b;
    T* const step = is_centered ? c : b;
    for (ptrdiff_t i = 0; i < n; i++) {
        T g = gradient[i] * sign;
        if (decays) g = g + p[i] * decay;
        const T square = v[i] * stays + g * g * enters;
        v[i] = square;
        T variance = square;
        if (is_centered) {
            const T average = mean[i] + (g - mean[i]) * enters;
            mean[i] = average;
            variance = square - average * average;
        }
        T change = g / (root(variance) + eps);
        if (has_momentum) step[i] = change = step[i] * share + change;
        p[i] -= change * rate;
    }
}

template <typename T, bool decays>
DISPOSESCOPE_INLINE Loop<T> rmsprop_loop_of(const UpdateRows& rows) {
    if (rows.numbers[7] != 0) return rows.state_count == 3 ? rmsprop<T, decays, true, true> : rmsprop<T, decays, true, false>;
    return rows.state_count == 2 ? rmsprop<T, decays, false, true> : rmsprop<T, decays, false, false>;
}

template <typename T>
DISPOSESCOPE_INLINE Loop<T> rmsprop_loop(const UpdateRows& rows) {
    return rows.numbers[1] != 0 ? rmsprop_loop_of<T, true>(rows) : rmsprop_loop_of<T, false>(rows);
}

template <typename T, Loop<T> (*choose)(const UpdateRows&)>
void update(void* context, ptrdiff_t start, ptrdiff_t end) {
    const UpdateRows& all = *static_cast<const UpdateRows*>(context);
    const Loop<T> loop = choose(all);
    T numbers[most_numbers];
    for (int i = 0; i < most_numbers; i++) numbers[i] = static_cast<T>(all.numbers[i]);
    // Find the row that contains `start`.
    ptrdiff_t low = 0, high = all.count;
    while (high - low > 1) {
        const ptrdiff_t middle = (low + high) / 2;
        (all.rows[middle].start <= start ? low : high) = middle;
    }
    for (const UpdateRow* row = all.rows + low; start < end; row++) {
        const ptrdiff_t stop = row[1].start < end ? row[1].start : end, skipped = start - row->start;
        T* state[most_state];
        for (int i = 0; i < most_state; i++)
            state[i] = i < all.state_count ? static_cast<T*>(row->state[i]) + skipped : nullptr;
        loop(static_cast<T*>(row->parameter) + skipped, static_cast<const T*>(row->gradient) + skipped, state[0],
             state[1], state[2], numbers, stop - start);
        start = stop;
    }
}

}  // namespace

const Updates updates_kernels = {
    update<float, sgd_loop<float>>,         update<double, sgd_loop<double>>,
    update<float, adam_loop<float>>,        update<double, adam_loop<double>>,
    update<float, rmsprop_loop<float>>,     update<double, rmsprop_loop<double>>,
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
