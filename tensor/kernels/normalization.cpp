// Layer, RMS and batch normalization, and their gradients: rows are read twice, while the cache has them.

#include "tensor/kernels/normalization.h"

#include "tensor/kernels/rows.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

template <typename T>
Pack<T> load(const T* x, ptrdiff_t i, ptrdiff_t left, T rest = 0) {
    return Pack<T>::load_up_to(x + i, left, rest);
}

template <typename T>
void store(Pack<T> value, T* to, ptrdiff_t left) {
    if (left >= Pack<T>::size)
        value.store(to);
    else
        value.store_first(to, left);
}


// --- Rows -----------------------------------------------------------------------------------------------------

template <typename T>
void normalize_rows(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    const RowNormWork& work = *static_cast<RowNormWork*>(context);
    const ptrdiff_t n = work.length;
    const double count = static_cast<double>(n);
    const T *const weight = static_cast<const T*>(work.weight), *const bias = static_cast<const T*>(work.bias);
    for (ptrdiff_t row = start; row < end; ++row) {
        const T* const x = static_cast<const T*>(work.x) + row * n;
        T* const out = static_cast<T*>(work.out) + row * n;
        T mean = 0;
        if (work.means != nullptr) {
            double total;
            add_up<1, T>(n, &total, [&](ptrdiff_t i, ptrdiff_t left, P* sums) { sums[0] = sums[0] + load(x, i, left); });
            mean = static_cast<T>(total / count);
            static_cast<T*>(work.means)[row] = mean;
        }
        const P centre = P::of(mean);
        double sums_of[2];
        add_up<2, T>(n, sums_of, [&](ptrdiff_t i, ptrdiff_t left, P* sums) {
            const P d = load(x, i, left, mean) - centre;
            sums[0] = sums[0] + d;
            sums[1] = fma(d, d, sums[1]);
        });
        // The mean was rounded: what that adds to the squares is subtracted.
        const double rest = work.means == nullptr ? 0 : sums_of[0] / count;
        const T inverse = static_cast<T>(1 / sqrt(sums_of[1] / count - rest * rest + work.eps));
        static_cast<T*>(work.inverses)[row] = inverse;
        const P factor = P::of(inverse);
        if (weight == nullptr && bias == nullptr)
            each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) {
                store((load(x, i, left) - centre) * factor, out + i, left);
            });
        else if (bias == nullptr)
            each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) {
                store((load(x, i, left) - centre) * factor * load(weight, i, left), out + i, left);
            });
        else
            each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) {
                const P normal = (load(x, i, left) - centre) * factor;
                const P scale = weight == nullptr ? P::of(1) : load(weight, i, left);
                store(fma(normal, scale, load(bias, i, left)), out + i, left);
            });
    }
}

// Which gradients are asked for is known when the loop is compiled.
template <typename T, bool has_weight, bool has_parts>
void row_backward(const RowNormWork& work, ptrdiff_t row, T* weight_part, T* bias_part) {
    using P = Pack<T>;
    const ptrdiff_t n = work.length;
    const T *const x = static_cast<const T*>(work.x) + row * n, *const g = static_cast<const T*>(work.gradient) + row * n;
    const T* const weight = static_cast<const T*>(work.weight);
    T* const dx = work.out == nullptr ? nullptr : static_cast<T*>(work.out) + row * n;
    const T mean = work.means == nullptr ? T(0) : static_cast<const T*>(work.means)[row];
    const P centre = P::of(mean), factor = P::of(static_cast<const T*>(work.inverses)[row]);
    double totals[2];
    add_up<2, T>(n, totals, [&](ptrdiff_t i, ptrdiff_t left, P* sums) {
        const P normal = (load(x, i, left, mean) - centre) * factor, slope = load(g, i, left);
        if constexpr (has_parts) {
            store(fma(slope, normal, load(weight_part, i, left)), weight_part + i, left);
            store(slope + load(bias_part, i, left), bias_part + i, left);
        }
        const P weighted = has_weight ? slope * load(weight, i, left) : slope;
        sums[0] = sums[0] + weighted;
        sums[1] = fma(weighted, normal, sums[1]);
    });
    if (dx == nullptr) return;
    const double count = static_cast<double>(n);
    const P first = P::of(work.means == nullptr ? T(0) : static_cast<T>(totals[0] / count));
    const P second = P::of(static_cast<T>(totals[1] / count));
    each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) {
        const P normal = (load(x, i, left) - centre) * factor, slope = load(g, i, left);
        const P weighted = has_weight ? slope * load(weight, i, left) : slope;
        store((weighted - first - normal * second) * factor, dx + i, left);
    });
}

template <typename T>
void normalize_rows_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RowNormWork& work = *static_cast<RowNormWork*>(context);
    const ptrdiff_t n = work.length, piece = start / work.grain;
    if (work.weight_parts == nullptr) {
        for (ptrdiff_t row = start; row < end; ++row) {
            if (work.weight != nullptr)
                row_backward<T, true, false>(work, row, nullptr, nullptr);
            else
                row_backward<T, false, false>(work, row, nullptr, nullptr);
        }
        return;
    }
    T* const weight_part = static_cast<T*>(work.weight_parts) + piece * n;
    T* const bias_part = static_cast<T*>(work.bias_parts) + piece * n;
    for (ptrdiff_t i = 0; i < n; ++i) weight_part[i] = bias_part[i] = 0;
    for (ptrdiff_t row = start; row < end; ++row) {
        if (work.weight != nullptr)
            row_backward<T, true, true>(work, row, weight_part, bias_part);
        else
            row_backward<T, false, true>(work, row, weight_part, bias_part);
    }
}

template <typename T>
void end_rows(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RowNormWork& work = *static_cast<RowNormWork*>(context);
    const ptrdiff_t pieces = ceil_of(work.rows, work.grain), n = work.length;
    const T* const parts[2] = {static_cast<const T*>(work.weight_parts), static_cast<const T*>(work.bias_parts)};
    T* const out[2] = {static_cast<T*>(work.weight_gradient), static_cast<T*>(work.bias_gradient)};
    for (int k = 0; k < 2; ++k) {
        if (out[k] == nullptr) continue;
        for (ptrdiff_t i = start; i < end; ++i) {
            double total = 0;
            for (ptrdiff_t piece = 0; piece < pieces; ++piece) total += parts[k][piece * n + i];
            out[k][i] = static_cast<T>(total);
        }
    }
}

// --- Channels -------------------------------------------------------------------------------------------------

// Calls f(place of a pack, elements there, a function that gives a pack of what there is one of for each channel).
template <typename T, typename Function>
inline void each_channel_pack(Channels shape, ptrdiff_t start, ptrdiff_t end, Function f) {
    using P = Pack<T>;
    if (are_columns(shape)) {
        const ptrdiff_t n = shape.count;
        for (ptrdiff_t row = start; row < end; ++row)
            each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) {
                f(row * n + i, left, [&](const void* values) { return load(static_cast<const T*>(values), i, left); });
            });
        return;
    }
    const ptrdiff_t n = shape.inner;
    for (ptrdiff_t segment = start; segment < end; ++segment) {
        const ptrdiff_t channel = segment % shape.count;
        each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) {
            f(segment * n + i, left, [&](const void* values) { return P::of(static_cast<const T*>(values)[channel]); });
        });
    }
}

template <typename T>
void normalize_channels(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ChannelNormWork& work = *static_cast<ChannelNormWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    T* const out = static_cast<T*>(work.out);
    each_channel_pack<T>(work.shape, start, end, [&](ptrdiff_t at, ptrdiff_t left, auto of) {
        const Pack<T> distance = load(x, at, left) - of(work.around);
        store(fma(distance, of(work.factors[0]), of(work.factors[1])), out + at, left);
    });
}

template <typename T>
void normalize_channels_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ChannelNormWork& work = *static_cast<ChannelNormWork*>(context);
    const T *const x = static_cast<const T*>(work.x), *const g = static_cast<const T*>(work.gradient);
    T* const dx = static_cast<T*>(work.out);
    if (work.around == nullptr) {
        each_channel_pack<T>(work.shape, start, end, [&](ptrdiff_t at, ptrdiff_t left, auto of) {
            store(load(g, at, left) * of(work.factors[0]), dx + at, left);
        });
        return;
    }
    each_channel_pack<T>(work.shape, start, end, [&](ptrdiff_t at, ptrdiff_t left, auto of) {
        const Pack<T> along = (load(x, at, left) - of(work.around)) * of(work.factors[1]);
        store(load(g, at, left) * of(work.factors[0]) - along - of(work.factors[2]), dx + at, left);
    });
}

}  // namespace

extern const Normalization normalization_kernels = {
    {normalize_rows<float>, normalize_rows<double>},
    {normalize_rows_backward<float>, normalize_rows_backward<double>},
    {end_rows<float>, end_rows<double>},
    {normalize_channels<float>, normalize_channels<double>},
    {normalize_channels_backward<float>, normalize_channels_backward<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
