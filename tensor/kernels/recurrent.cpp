#include "tensor/kernels/recurrent.h"

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd_math.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

using std::ptrdiff_t;

template <typename T>
DISPOSESCOPE_INLINE T sigmoid(T x) {
    const T bounded = at_least(at_most(-x, Float<T>::exp_most), Float<T>::exp_least);
    return T(1) / (T(1) + exponential_of(bounded).whole());
}

template <typename T>
DISPOSESCOPE_INLINE T tanh(T x) {
    // (1 - e) / (1 + e) with e = exp(-2|x|). `numerator` is 1 - e, precise even if it is small.
    const Exponential<T> e = exponential_of(T(-2) * at_most(magnitude(x), Float<T>::tanh_most));
    const T scale = e.scale(), numerator = -fused(scale, e.tail, scale - T(1));
    return with_sign_of(numerator / (T(2) - numerator), x);
}

template <typename T>
struct Row {
    const RecurrentWork& work;
    ptrdiff_t row, n = work.hidden;

    DISPOSESCOPE_INLINE T* of(void* array, ptrdiff_t blocks) const { return static_cast<T*>(array) + row * blocks * n; }
    DISPOSESCOPE_INLINE const T* of(const void* array, ptrdiff_t blocks) const { return static_cast<const T*>(array) + row * blocks * n; }
    DISPOSESCOPE_INLINE const T* before() const { return of(row < work.from_previous ? work.previous : work.initial, 1); }
    DISPOSESCOPE_INLINE const T* gradient() const { return static_cast<const T*>(work.gradient) + row * work.gradient_stride; }
    DISPOSESCOPE_INLINE const T* carried() const { return static_cast<const T*>(work.carried) + row * work.carried_stride; }
};

struct ByTanh {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return tanh(x); }
    template <typename T>
    static DISPOSESCOPE_INLINE T slope(T y) { return fused(-y, y, T(1)); }
};

struct ByRelu {
    template <typename T>
    static DISPOSESCOPE_INLINE T of(T x) { return x < T(0) ? T(0) : x; }
    template <typename T>
    static DISPOSESCOPE_INLINE T slope(T y) { return y > T(0) ? T(1) : T(0); }
};

template <typename T, typename F>
void plain(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RecurrentWork& work = *static_cast<RecurrentWork*>(context);
    const T* const b = static_cast<const T*>(work.bias);
    for (ptrdiff_t i = start; i < end; ++i) {
        const Row<T> row{work, i};
        T* const g = row.of(work.gates, 1);
        const T* const r = row.of(work.recurrent, 1);
        DISPOSESCOPE_INDEPENDENT
        for (ptrdiff_t j = 0; j < work.hidden; ++j) g[j] = F::of(g[j] + r[j] + b[j]);
    }
}

template <typename T, typename F>
void plain_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RecurrentWork& work = *static_cast<RecurrentWork*>(context);
    for (ptrdiff_t i = start; i < end; ++i) {
        const Row<T> row{work, i};
        const T* const y = row.of(static_cast<const void*>(work.gates), 1);
        const T *const above = row.gradient(), *const next = row.carried();
        T* const dg = row.of(work.gates_gradient, 1);
        DISPOSESCOPE_INDEPENDENT
        for (ptrdiff_t j = 0; j < work.hidden; ++j) dg[j] = (above[j] + next[j]) * F::slope(y[j]);
    }
}

template <typename T>
void lstm(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RecurrentWork& work = *static_cast<RecurrentWork*>(context);
    const ptrdiff_t n = work.hidden;
    const T* const b = static_cast<const T*>(work.bias);
    for (ptrdiff_t i = start; i < end; ++i) {
        const Row<T> row{work, i};
        T* const g = row.of(work.gates, 4);
        const T *const r = row.of(work.recurrent, 4), *const before = row.before();
        T *const c = row.of(work.cell, 1), *const h = row.of(work.out, 1);
        DISPOSESCOPE_INDEPENDENT
        for (ptrdiff_t j = 0; j < n; ++j) {
            const T in = sigmoid(g[j] + r[j] + b[j]);
            const T forget = sigmoid(g[n + j] + r[n + j] + b[n + j]);
            const T fresh = tanh(g[2 * n + j] + r[2 * n + j] + b[2 * n + j]);
            const T out = sigmoid(g[3 * n + j] + r[3 * n + j] + b[3 * n + j]);
            const T state = fused(in, fresh, forget * before[j]);
            g[j] = in;
            g[n + j] = forget;
            g[2 * n + j] = fresh;
            g[3 * n + j] = out;
            c[j] = state;
            h[j] = out * tanh(state);
        }
    }
}

template <typename T>
void lstm_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RecurrentWork& work = *static_cast<RecurrentWork*>(context);
    const ptrdiff_t n = work.hidden;
    for (ptrdiff_t i = start; i < end; ++i) {
        const Row<T> row{work, i};
        const T *const g = row.of(static_cast<const void*>(work.gates), 4), *const before = row.before();
        const T *const c = row.of(static_cast<const void*>(work.cell), 1);
        const T *const above = row.gradient(), *const next = row.carried();
        T *const dc = row.of(work.state_gradient, 1), *const dg = row.of(work.gates_gradient, 4);
        DISPOSESCOPE_INDEPENDENT
        for (ptrdiff_t j = 0; j < n; ++j) {
            const T in = g[j], forget = g[n + j], fresh = g[2 * n + j], out = g[3 * n + j];
            const T dh = above[j] + next[j], tanh_c = tanh(c[j]);
            const T slope = fused(dh * out, fused(-tanh_c, tanh_c, T(1)), dc[j]);
            dg[j] = slope * fresh * (in * (T(1) - in));
            dg[n + j] = slope * before[j] * (forget * (T(1) - forget));
            dg[2 * n + j] = slope * in * fused(-fresh, fresh, T(1));
            dg[3 * n + j] = dh * tanh_c * (out * (T(1) - out));
            dc[j] = slope * forget;
        }
    }
}

template <typename T>
void gru(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RecurrentWork& work = *static_cast<RecurrentWork*>(context);
    const ptrdiff_t n = work.hidden;
    const T* const b = static_cast<const T*>(work.bias);
    for (ptrdiff_t i = start; i < end; ++i) {
        const Row<T> row{work, i};
        T* const g = row.of(work.gates, 3);
        const T *const r = row.of(work.recurrent, 3), *const before = row.before();
        T *const scaled = row.of(work.cell, 1), *const h = row.of(work.out, 1);
        DISPOSESCOPE_INDEPENDENT
        for (ptrdiff_t j = 0; j < n; ++j) {
            const T reset = sigmoid(g[j] + r[j] + b[j]);
            const T update = sigmoid(g[n + j] + r[n + j] + b[n + j]);
            const T past = r[2 * n + j] + b[3 * n + j];
            const T fresh = tanh(fused(reset, past, g[2 * n + j] + b[2 * n + j]));
            g[j] = reset;
            g[n + j] = update;
            g[2 * n + j] = fresh;
            scaled[j] = past;
            h[j] = fused(update, before[j] - fresh, fresh);
        }
    }
}

template <typename T>
void gru_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RecurrentWork& work = *static_cast<RecurrentWork*>(context);
    const ptrdiff_t n = work.hidden;
    for (ptrdiff_t i = start; i < end; ++i) {
        const Row<T> row{work, i};
        const T *const g = row.of(static_cast<const void*>(work.gates), 3), *const before = row.before();
        const T *const scaled = row.of(static_cast<const void*>(work.cell), 1);
        const T *const above = row.gradient(), *const next = row.carried();
        T* const past = row.of(work.state_gradient, 1);
        T *const dg = row.of(work.gates_gradient, 3), *const dr = row.of(work.recurrent_gradient, 3);
        DISPOSESCOPE_INDEPENDENT
        for (ptrdiff_t j = 0; j < n; ++j) {
            const T reset = g[j], update = g[n + j], fresh = g[2 * n + j];
            const T dh = above[j] + next[j] + past[j];
            const T by_fresh = dh * (T(1) - update) * fused(-fresh, fresh, T(1));
            const T by_update = dh * (before[j] - fresh) * (update * (T(1) - update));
            const T by_reset = by_fresh * scaled[j] * (reset * (T(1) - reset));
            dg[j] = dr[j] = by_reset;
            dg[n + j] = dr[n + j] = by_update;
            dg[2 * n + j] = by_fresh;
            dr[2 * n + j] = by_fresh * reset;
            past[j] = dh * update;
        }
    }
}

}  // namespace

extern const Recurrent recurrent_kernels = {
    {
        {plain<float, ByTanh>, plain<double, ByTanh>},
        {plain<float, ByRelu>, plain<double, ByRelu>},
        {lstm<float>, lstm<double>},
        {gru<float>, gru<double>},
    },
    {
        {plain_backward<float, ByTanh>, plain_backward<double, ByTanh>},
        {plain_backward<float, ByRelu>, plain_backward<double, ByRelu>},
        {lstm_backward<float>, lstm_backward<double>},
        {gru_backward<float>, gru_backward<double>},
    },
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
