// Layer, RMS and batch normalization, and their gradients. Each row is read twice, the second time from the
// cache.

#include "tensor/kernels/normalization.h"

#include "tensor/kernels/rows.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

template <typename T>
DISPOSESCOPE_INLINE Pack<T> load(const T* x, ptrdiff_t i, ptrdiff_t left, T rest = 0) {
    return Pack<T>::load_up_to(x + i, left, rest);
}

template <typename T>
DISPOSESCOPE_INLINE void store(Pack<T> value, T* to, ptrdiff_t left) {
    value.store_up_to(to, left);
}

// --- Rows

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
        double squares;
        if (work.means != nullptr) {
            const double origin = n > 0 ? x[0] : 0;
            const Moments found = moments_of_run(x, n, origin);
            static_cast<T*>(work.means)[row] = mean = static_cast<T>(origin + found.mean);
            squares = found.squares;
        } else {
            add_up<1, T>(n, &squares, [&](ptrdiff_t i, ptrdiff_t left, P* sums) DISPOSESCOPE_INLINED {
                const P a = load(x, i, left);
                sums[0] = fma(a, a, sums[0]);
            });
        }
        const T inverse = static_cast<T>(1 / sqrt(squares / count + work.eps));
        static_cast<T*>(work.inverses)[row] = inverse;
        const P centre = P::of(mean), factor = P::of(inverse);
        if (weight == nullptr && bias == nullptr)
            each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
                store((load(x, i, left) - centre) * factor, out + i, left);
            });
        else if (bias == nullptr)
            each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
                store((load(x, i, left) - centre) * factor * load(weight, i, left), out + i, left);
            });
        else
            each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
                const P normal = (load(x, i, left) - centre) * factor;
                const P scale = weight == nullptr ? P::of(1) : load(weight, i, left);
                store(fma(normal, scale, load(bias, i, left)), out + i, left);
            });
    }
}

// Compute the gradient of `count` rows. With has_parts, also add the rows' gradients of weight and bias to
// `weight_part` and `bias_part`. Without has_weight, the weight is 1.
template <typename T, bool has_weight, bool has_parts, int count>
void rows_backward(const RowNormWork& work, ptrdiff_t row, T* weight_part, T* bias_part) {
    using P = Pack<T>;
    const ptrdiff_t n = work.length;
    const T *const x = static_cast<const T*>(work.x) + row * n, *const g = static_cast<const T*>(work.gradient) + row * n;
    const T* const weight = static_cast<const T*>(work.weight);
    T* const dx = work.out == nullptr ? nullptr : static_cast<T*>(work.out) + row * n;
    T means[count];
    P centre[count], factor[count], first[count], second[count];
    for (int k = 0; k < count; ++k) {
        means[k] = work.means == nullptr ? T(0) : static_cast<const T*>(work.means)[row + k];
        centre[k] = P::of(means[k]);
        factor[k] = P::of(static_cast<const T*>(work.inverses)[row + k]);
        if (dx == nullptr) continue;
        double totals[2];
        add_up<2, T>(n, totals, [&](ptrdiff_t i, ptrdiff_t left, P* sums) DISPOSESCOPE_INLINED {
            const P normal = (load(x + k * n, i, left, means[k]) - centre[k]) * factor[k];
            const P slope = load(g + k * n, i, left);
            const P weighted = has_weight ? slope * load(weight, i, left) : slope;
            sums[0] = sums[0] + weighted;
            sums[1] = fma(weighted, normal, sums[1]);
        });
        first[k] = P::of(work.means == nullptr ? T(0) : static_cast<T>(totals[0] / static_cast<double>(n)));
        second[k] = P::of(static_cast<T>(totals[1] / static_cast<double>(n)));
    }
    each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
        P by_weight = P::of(0), by_bias = P::of(0);
        for (int k = 0; k < count; ++k) {
            const P normal = (load(x + k * n, i, left, means[k]) - centre[k]) * factor[k];
            const P slope = load(g + k * n, i, left);
            by_weight = fma(slope, normal, by_weight);
            by_bias = by_bias + slope;
            if (dx == nullptr) continue;
            const P weighted = has_weight ? slope * load(weight, i, left) : slope;
            store((weighted - first[k] - normal * second[k]) * factor[k], dx + k * n + i, left);
        }
        if constexpr (has_parts) {
            store(load(weight_part, i, left) + by_weight, weight_part + i, left);
            store(load(bias_part, i, left) + by_bias, bias_part + i, left);
        }
    });
}

template <typename T, bool has_weight>
void normalize_rows_backward(const RowNormWork& work, ptrdiff_t start, ptrdiff_t end) {
    constexpr int together = 4;
    const ptrdiff_t n = work.length, piece = start / work.grain;
    if (work.weight_parts == nullptr) {
        for (ptrdiff_t row = start; row < end; ++row)
            rows_backward<T, has_weight, false, 1>(work, row, nullptr, nullptr);
        return;
    }
    T* const weight_part = static_cast<T*>(work.weight_parts) + piece * n;
    T* const bias_part = static_cast<T*>(work.bias_parts) + piece * n;
    for (ptrdiff_t i = 0; i < n; ++i) weight_part[i] = bias_part[i] = 0;
    ptrdiff_t row = start;
    for (; row + together <= end; row += together)
        rows_backward<T, has_weight, true, together>(work, row, weight_part, bias_part);
    for (; row < end; ++row) rows_backward<T, has_weight, true, 1>(work, row, weight_part, bias_part);
}

template <typename T>
void normalize_rows_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const RowNormWork& work = *static_cast<RowNormWork*>(context);
    if (work.weight != nullptr)
        normalize_rows_backward<T, true>(work, start, end);
    else
        normalize_rows_backward<T, false>(work, start, end);
}

template <typename T>
void sum_row_parts(void* context, ptrdiff_t start, ptrdiff_t end) {
    constexpr ptrdiff_t columns = 256;
    const RowNormWork& work = *static_cast<RowNormWork*>(context);
    const ptrdiff_t pieces = ceil_of(work.rows, work.grain), n = work.length;
    const T* const parts[2] = {static_cast<const T*>(work.weight_parts), static_cast<const T*>(work.bias_parts)};
    T* const out[2] = {static_cast<T*>(work.weight_gradient), static_cast<T*>(work.bias_gradient)};
    for (int k = 0; k < 2; ++k) {
        if (out[k] == nullptr) continue;
        for (ptrdiff_t i = start; i < end; i += columns) {
            const ptrdiff_t count = end - i < columns ? end - i : columns;
            double totals[columns] = {};
            for (ptrdiff_t piece = 0; piece < pieces; ++piece)
                for (ptrdiff_t j = 0; j < count; ++j) totals[j] += parts[k][piece * n + i + j];
            for (ptrdiff_t j = 0; j < count; ++j) out[k][i + j] = static_cast<T>(totals[j]);
        }
    }
}

// --- Channels

template <typename T>
void inverses(void* context, ptrdiff_t start, ptrdiff_t end) {
    const InversesWork& work = *static_cast<InversesWork*>(context);
    const T* const variances = static_cast<const T*>(work.variances);
    T* const out = static_cast<T*>(work.out);
    const double eps = work.eps;
    for (ptrdiff_t i = start; i < end; ++i) out[i] = static_cast<T>(1 / sqrt(variances[i] + eps));
}

// Call f(offset, left, values) for each pack of an array: the pack begins at element `offset`, and only its
// first `left` elements exist. `values` is make(of) for the channels of the pack, where of(array) loads their
// values from an array with one value per channel.
template <typename T, typename Make, typename Function>
DISPOSESCOPE_INLINE void each_channel_pack(Channels shape, ptrdiff_t start, ptrdiff_t end, Make make, Function f) {
    using P = Pack<T>;
    if (are_columns(shape)) {
        const ptrdiff_t n = shape.count, chunks = ceil_of(n, chunk_columns);
        for (ptrdiff_t unit = start; unit < end; ++unit) {
            const ptrdiff_t row = unit / chunks * rows_of_chunk, column = unit % chunks * chunk_columns;
            const ptrdiff_t rows = shape.outer - row < rows_of_chunk ? shape.outer - row : rows_of_chunk;
            const ptrdiff_t columns = n - column < chunk_columns ? n - column : chunk_columns;
            each_pack<T>(columns, [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
                const auto values = make([&](const void* all) DISPOSESCOPE_INLINED { return load(static_cast<const T*>(all), column + i, left); });
                for (ptrdiff_t k = row; k < row + rows; ++k) f(k * n + column + i, left, values);
            });
        }
        return;
    }
    const ptrdiff_t n = shape.inner;
    for (ptrdiff_t segment = start; segment < end; ++segment) {
        const ptrdiff_t channel = segment % shape.count;
        const auto values = make([&](const void* all) DISPOSESCOPE_INLINED { return P::of(static_cast<const T*>(all)[channel]); });
        each_pack<T>(n, [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED { f(segment * n + i, left, values); });
    }
}

// Return inverses * weight for the channels whose values `of` loads from an array.
template <typename T, typename Of>
DISPOSESCOPE_INLINE Pack<T> scale_of(const ChannelNormWork& work, Of of) {
    return work.weight == nullptr ? of(work.inverses) : of(work.inverses) * of(work.weight);
}

template <typename T>
void normalize_channels(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    struct Values {
        P mean, scale, bias;
    };
    const ChannelNormWork& work = *static_cast<ChannelNormWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    T* const out = static_cast<T*>(work.out);
    each_channel_pack<T>(
        work.shape, start, end,
        [&](auto of) DISPOSESCOPE_INLINED {
            return Values{of(work.means), scale_of<T>(work, of), work.bias == nullptr ? P::of(0) : of(work.bias)};
        },
        [&](ptrdiff_t at, ptrdiff_t left, const Values& v) DISPOSESCOPE_INLINED {
            store(fma(load(x, at, left) - v.mean, v.scale, v.bias), out + at, left);
        });
}

template <typename T>
void normalize_channels_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    struct Values {
        P mean, scale, along, across;
    };
    const ChannelNormWork& work = *static_cast<ChannelNormWork*>(context);
    const T *const x = static_cast<const T*>(work.x), *const g = static_cast<const T*>(work.gradient);
    T* const dx = static_cast<T*>(work.out);
    if (work.sums == nullptr) {
        each_channel_pack<T>(
            work.shape, start, end, [&](auto of) DISPOSESCOPE_INLINED { return scale_of<T>(work, of); },
            [&](ptrdiff_t at, ptrdiff_t left, P scale) DISPOSESCOPE_INLINED { store(load(g, at, left) * scale, dx + at, left); });
        return;
    }
    const P share = P::of(static_cast<T>(work.share));
    each_channel_pack<T>(
        work.shape, start, end,
        [&](auto of) DISPOSESCOPE_INLINED {
            const P scale = scale_of<T>(work, of);
            return Values{of(work.means), scale, of(work.products) * share * of(work.inverses) * scale,
                          of(work.sums) * share * scale};
        },
        [&](ptrdiff_t at, ptrdiff_t left, const Values& v) DISPOSESCOPE_INLINED {
            const P along = (load(x, at, left) - v.mean) * v.along;
            store(load(g, at, left) * v.scale - along - v.across, dx + at, left);
        });
}

}  // namespace

extern const Normalization normalization_kernels = {
    {normalize_rows<float>, normalize_rows<double>},
    {normalize_rows_backward<float>, normalize_rows_backward<double>},
    {sum_row_parts<float>, sum_row_parts<double>},
    {inverses<float>, inverses<double>},
    {normalize_channels<float>, normalize_channels<double>},
    {normalize_channels_backward<float>, normalize_channels_backward<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
