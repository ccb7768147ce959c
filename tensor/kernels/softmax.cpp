// Softmax and related functions. A row is read again while it is in the cache; many columns are processed at
// once.
//
// Rows are summed in blocks of 1,024 elements, and the sums of blocks as doubles. Columns are summed eight
// rows at a time.

#include "tensor/kernels/softmax.h"

#include "tensor/kernels/simd_math.h"
#include "tensor/kernels/transposing.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

constexpr ptrdiff_t block = 1024;

template <typename T>
DISPOSESCOPE_INLINE Pack<T> exp(Pack<T> a) {
    return map(a, [](auto x) DISPOSESCOPE_INLINED { return exp(x); });
}

template <typename T>
DISPOSESCOPE_INLINE Pack<T> log(Pack<T> a) {
    return map(a, [](auto x) DISPOSESCOPE_INLINED { return log(x); });
}

// Replace values that are not finite by 0, so that exponentials relative to the result never subtract
// infinity from infinity.
template <typename T>
DISPOSESCOPE_INLINE Pack<T> finite_or_0(Pack<T> a) {
    return map(a, [](auto x) DISPOSESCOPE_INLINED {
        const auto zero = x - x;  // nan where `x` is not finite
        return zero == zero ? x : splat<decltype(x)>(0);
    });
}

// --- Rows

// Call `step` with the offset of each whole pack of a row, then `last` with the rest, if any.
template <typename T, typename Step, typename Last>
DISPOSESCOPE_INLINE void each_pack(ptrdiff_t n, Step step, Last last) {
    ptrdiff_t i = 0;
    for (; i + Pack<T>::size <= n; i += Pack<T>::size) step(i);
    if (i < n) last(i, n - i);
}

template <typename T>
T top_of(const T* x, ptrdiff_t n) {
    using P = Pack<T>;
    P tops[4];
    for (P& top : tops) top = P::of(-infinity<T>());
    ptrdiff_t i = 0;
    for (; i + 4 * P::size <= n; i += 4 * P::size)
        for (int k = 0; k < 4; ++k) tops[k] = larger(tops[k], P::load(x + i + k * P::size));
    each_pack<T>(
        n - i, [&](ptrdiff_t j) DISPOSESCOPE_INLINED { tops[0] = larger(tops[0], P::load(x + i + j)); },
        [&](ptrdiff_t j, ptrdiff_t left) DISPOSESCOPE_INLINED {
            tops[1] = larger(tops[1], P::load_first(x + i + j, left, -infinity<T>()));
        });
    return largest(larger(larger(tops[0], tops[1]), larger(tops[2], tops[3])));
}

// Return the sum of `value(offset)` over the packs, and of `last` for the rest.
template <typename T, typename Value, typename Last>
DISPOSESCOPE_INLINE double sum_of(ptrdiff_t n, Value value, Last last) {
    using P = Pack<T>;
    double total = 0;
    for (ptrdiff_t start = 0; start < n; start += block) {
        const ptrdiff_t count = n - start < block ? n - start : block;
        P sums[2] = {P::of(0), P::of(0)};
        ptrdiff_t i = start;
        const ptrdiff_t end = start + count;
        for (; i + 2 * P::size <= end; i += 2 * P::size)
            for (int k = 0; k < 2; ++k) sums[k] = sums[k] + value(i + k * P::size);
        if (i + P::size <= end) {
            sums[0] = sums[0] + value(i);
            i += P::size;
        }
        if (i < end) sums[1] = sums[1] + last(i, end - i);
        total += sum(sums[0] + sums[1]);
    }
    return total;
}

template <typename T>
double sum_of_exps(const T* x, ptrdiff_t n, T from, T* out) {
    using P = Pack<T>;
    const P start = P::of(from);
    if (out == nullptr)
        return sum_of<T>(
            n, [&](ptrdiff_t i) DISPOSESCOPE_INLINED { return exp(P::load(x + i) - start); },
            [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
                return exp(P::load_first(x + i, left, -infinity<T>()) - start);
            });
    return sum_of<T>(
        n,
        [&](ptrdiff_t i) DISPOSESCOPE_INLINED {
            const P e = exp(P::load(x + i) - start);
            e.store(out + i);
            return e;
        },
        [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
            const P e = exp(P::load_first(x + i, left, -infinity<T>()) - start);
            e.store_first(out + i, left);
            return e;
        });
}

// out = f(x), or f(x, y). `out` may be an operand.
template <typename T, typename Function>
DISPOSESCOPE_INLINE void write_each(const T* x, ptrdiff_t n, T* out, Function f) {
    using P = Pack<T>;
    each_pack<T>(
        n, [&](ptrdiff_t i) DISPOSESCOPE_INLINED { f(P::load(x + i)).store(out + i); },
        [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED { f(P::load_first(x + i, left, 0)).store_first(out + i, left); });
}

template <typename T, typename Function>
DISPOSESCOPE_INLINE void write_each(const T* x, const T* y, ptrdiff_t n, T* out, Function f) {
    using P = Pack<T>;
    each_pack<T>(
        n, [&](ptrdiff_t i) DISPOSESCOPE_INLINED { f(P::load(x + i), P::load(y + i)).store(out + i); },
        [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
            f(P::load_first(x + i, left, 0), P::load_first(y + i, left, 0)).store_first(out + i, left);
        });
}

template <typename T>
void softmax_row(const T* x, ptrdiff_t n, T* out) {
    const double total = sum_of_exps(x, n, top_of(x, n), out);
    const Pack<T> share = Pack<T>::of(static_cast<T>(1 / total));
    write_each(out, n, out, [&](Pack<T> e) DISPOSESCOPE_INLINED { return e * share; });
}

template <typename T>
void log_softmax_row(const T* x, ptrdiff_t n, T* out) {
    const T top = top_of(x, n);
    const double total = sum_of_exps<T>(x, n, top, nullptr);
    const Pack<T> start = Pack<T>::of(top), rest = Pack<T>::of(static_cast<T>(log(total)));
    write_each(x, n, out, [&](Pack<T> a) DISPOSESCOPE_INLINED { return a - start - rest; });
}

template <typename T>
T logsumexp_row(const T* x, ptrdiff_t n) {
    const T top = top_of(x, n), start = top - top == 0 ? top : T(0);
    return static_cast<T>(log(sum_of_exps<T>(x, n, start, nullptr)) + start);
}

template <typename T>
void softmax_backward_row(const T* out, const T* g, ptrdiff_t n, T* dx) {
    using P = Pack<T>;
    const double total = sum_of<T>(
        n, [&](ptrdiff_t i) DISPOSESCOPE_INLINED { return P::load(out + i) * P::load(g + i); },
        [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED {
            return P::load_first(out + i, left, 0) * P::load_first(g + i, left, 0);
        });
    const P mean = P::of(static_cast<T>(total));
    write_each(out, g, n, dx, [&](P a, P b) DISPOSESCOPE_INLINED { return a * (b - mean); });
}

template <typename T>
void log_softmax_backward_row(const T* out, const T* g, ptrdiff_t n, T* dx) {
    using P = Pack<T>;
    const double total = sum_of<T>(
        n, [&](ptrdiff_t i) DISPOSESCOPE_INLINED { return P::load(g + i); },
        [&](ptrdiff_t i, ptrdiff_t left) DISPOSESCOPE_INLINED { return P::load_first(g + i, left, 0); });
    const P all = P::of(static_cast<T>(total));
    write_each(out, g, n, dx, [&](P a, P b) DISPOSESCOPE_INLINED { return b - exp(a) * all; });
}

// --- Short rows

// Rows of at most one pack. Each lane of a pack processes a row. Otherwise most time would go to joining
// lanes, and to logarithms of single numbers.
template <typename T>
struct ShortRows {
    using P = Pack<T>;
    static constexpr int most = P::size;
    ptrdiff_t rows, n;
    T values[most * most];  // column `j` and row `i` at j * most + i
    P top, total;           // the maximum of each row, and the sum of exponentials relative to it

    static DISPOSESCOPE_INLINE bool fits(Axis axis) { return axis.behind == 1 && axis.length <= most; }

    // Read at most `count` rows.
    DISPOSESCOPE_INLINE ShortRows(const T* x, ptrdiff_t count, ptrdiff_t length) : rows(count < most ? count : most), n(length) {
        each_block(
            [&](ptrdiff_t i, ptrdiff_t j) DISPOSESCOPE_INLINED { transpose_block(x + i * n + j, values + j * most + i, n, most); },
            [&](ptrdiff_t i, ptrdiff_t j) DISPOSESCOPE_INLINED { values[j * most + i] = x[i * n + j]; });
        for (ptrdiff_t j = 0; j < n; ++j)
            for (ptrdiff_t i = rows; i < most; ++i) values[j * most + i] = 0;
        top = column(0);
        for (ptrdiff_t j = 1; j < n; ++j) top = larger(top, column(j));
    }

    DISPOSESCOPE_INLINE P column(ptrdiff_t j) const { return P::load(values + j * most); }
    DISPOSESCOPE_INLINE void set(ptrdiff_t j, P value) { value.store(values + j * most); }

    DISPOSESCOPE_INLINE P add_exponential(ptrdiff_t j) {
        const P e = exp(column(j) - top);
        total = total + e;
        return e;
    }

    DISPOSESCOPE_INLINE void write(T* out) const {
        each_block(
            [&](ptrdiff_t i, ptrdiff_t j) DISPOSESCOPE_INLINED { transpose_block(values + j * most + i, out + i * n + j, most, n); },
            [&](ptrdiff_t i, ptrdiff_t j) DISPOSESCOPE_INLINED { out[i * n + j] = values[j * most + i]; });
    }

   private:
    // Call `of_block` with the row and column of each block of 4 by 4, and `of_one` with those of the
    // remaining elements.
    template <typename Block, typename Single>
    DISPOSESCOPE_INLINE void each_block(Block of_block, Single of_one) const {
        for (ptrdiff_t i = 0; i < rows; i += 4) {
            ptrdiff_t j = 0;
            if (i + 4 <= rows)
                for (; j + 4 <= n; j += 4) of_block(i, j);
            const ptrdiff_t end = i + 4 < rows ? i + 4 : rows;
            for (; j < n; ++j)
                for (ptrdiff_t k = i; k < end; ++k) of_one(k, j);
        }
    }
};

template <typename T>
void softmax_short_rows(const T* x, ptrdiff_t count, ptrdiff_t n, T* out) {
    using P = Pack<T>;
    for (ptrdiff_t i = 0; i < count; i += ShortRows<T>::most) {
        ShortRows<T> all(x + i * n, count - i, n);
        all.total = P::of(0);
        for (ptrdiff_t j = 0; j < n; ++j) all.set(j, all.add_exponential(j));
        const P share = P::of(1) / all.total;
        for (ptrdiff_t j = 0; j < n; ++j) all.set(j, all.column(j) * share);
        all.write(out + i * n);
    }
}

template <typename T>
void log_softmax_short_rows(const T* x, ptrdiff_t count, ptrdiff_t n, T* out) {
    using P = Pack<T>;
    for (ptrdiff_t i = 0; i < count; i += ShortRows<T>::most) {
        ShortRows<T> all(x + i * n, count - i, n);
        all.total = P::of(0);
        for (ptrdiff_t j = 0; j < n; ++j) all.add_exponential(j);
        const P rest = log(all.total);
        for (ptrdiff_t j = 0; j < n; ++j) all.set(j, all.column(j) - all.top - rest);
        all.write(out + i * n);
    }
}

template <typename T>
void logsumexp_short_rows(const T* x, ptrdiff_t count, ptrdiff_t n, T* out) {
    using P = Pack<T>;
    for (ptrdiff_t i = 0; i < count; i += ShortRows<T>::most) {
        ShortRows<T> all(x + i * n, count - i, n);
        all.top = finite_or_0(all.top);
        all.total = P::of(0);
        for (ptrdiff_t j = 0; j < n; ++j) all.add_exponential(j);
        (log(all.total) + all.top).store_up_to(out + i, all.rows);
    }
}

// --- Columns

// Some columns of a block, in `packs` packs; the last pack may have fewer columns. Row `i` begins at i *
// stride.
template <typename T>
struct Columns {
    using P = Pack<T>;
    static constexpr int most = chunk_bytes / 64;
    // The rows of one pack that registers hold at once.
    static constexpr int together = 8;
    ptrdiff_t rows, stride, count;
    int packs;

    DISPOSESCOPE_INLINE Columns(Axis axis, ptrdiff_t first) : rows(axis.length), stride(axis.behind) {
        const ptrdiff_t left = axis.behind - first;
        count = left < most * P::size ? left : most * P::size;
        packs = static_cast<int>((count + P::size - 1) / P::size);
    }

    DISPOSESCOPE_INLINE P load(const T* x, ptrdiff_t row, int j) const {
        const T* const from = x + row * stride + j * P::size;
        return P::load_up_to(from, count - j * P::size);
    }

    DISPOSESCOPE_INLINE void store(P value, T* out, ptrdiff_t row, int j) const { store_at(value, out + row * stride, j); }

    // Store to a row of results, one for each column.
    DISPOSESCOPE_INLINE void store_at(P value, T* out, int j) const {
        value.store_up_to(out + j * P::size, count - j * P::size);
    }

    // For each pack, sum `value(row, pack)` over all rows.
    template <typename Value>
    DISPOSESCOPE_INLINE void add_up(P* sums, Value value) const {
        for (int j = 0; j < packs; ++j) sums[j] = P::of(0);
        ptrdiff_t i = 0;
        for (; i + together <= rows; i += together)
            for (int j = 0; j < packs; ++j) {
                P some = value(i, j);
                for (int k = 1; k < together; ++k) some = some + value(i + k, j);
                sums[j] = sums[j] + some;
            }
        for (; i < rows; ++i)
            for (int j = 0; j < packs; ++j) sums[j] = sums[j] + value(i, j);
    }

    // For each pack, compute the maximum of its rows, and the sum of exponentials relative to the maximum, or
    // to 0 if the maximum is not finite. Rows are read once: a new maximum rescales the sum so far.
    DISPOSESCOPE_INLINE void tops_and_sums(const T* x, P* tops, P* sums) const {
        for (int j = 0; j < packs; ++j) {
            tops[j] = P::of(-infinity<T>());
            sums[j] = P::of(0);
        }
        for (ptrdiff_t i = 0; i < rows; i += together) {
            const int some = rows - i < together ? static_cast<int>(rows - i) : together;
            for (int j = 0; j < packs; ++j) {
                P value[together], top = tops[j];
                if (some == together)
                    for (int k = 0; k < together; ++k) value[k] = load(x, i + k, j);
                else
                    for (int k = 0; k < together; ++k)
                        value[k] = k < some ? load(x, i + k, j) : P::of(-infinity<T>());
                for (int k = 0; k < together; ++k) top = larger(top, value[k]);
                const P start = finite_or_0(top);
                P all = exp(value[0] - start);
                for (int k = 1; k < together; ++k) all = all + exp(value[k] - start);
                sums[j] = fma(sums[j], exp(finite_or_0(tops[j]) - start), all);
                tops[j] = top;
            }
        }
    }

    // Write `value(row, pack)` to `out`, which may be the input.
    template <typename Value>
    DISPOSESCOPE_INLINE void write(T* out, Value value) const {
        for (ptrdiff_t i = 0; i < rows; ++i)
            for (int j = 0; j < packs; ++j) store(value(i, j), out, i, j);
    }
};

// Return the sum, but nan if the maximum is infinite, positive or negative, as for rows.
template <typename T>
DISPOSESCOPE_INLINE Pack<T> nan_unless_finite(Pack<T> sum, Pack<T> top) {
    return sum + (top - top);
}

// Up to this many bytes, columns are still in the second-level cache when they are read again.
constexpr ptrdiff_t cached_bytes = 1 << 18;

template <typename T>
void softmax_columns(const Columns<T>& c, const T* x, T* out) {
    using P = Pack<T>;
    P tops[Columns<T>::most], sums[Columns<T>::most];
    if (c.rows * chunk_bytes <= cached_bytes) {
        for (int j = 0; j < c.packs; ++j) tops[j] = P::of(-infinity<T>());
        for (ptrdiff_t i = 0; i < c.rows; ++i)
            for (int j = 0; j < c.packs; ++j) tops[j] = larger(tops[j], c.load(x, i, j));
        c.add_up(sums, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED {
            const P e = exp(c.load(x, i, j) - tops[j]);
            c.store(e, out, i, j);
            return e;
        });
        for (int j = 0; j < c.packs; ++j) sums[j] = P::of(1) / sums[j];
        c.write(out, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED { return c.load(out, i, j) * sums[j]; });
        return;
    }
    // Compute the exponentials twice, which is faster than writing and reading them once more.
    c.tops_and_sums(x, tops, sums);
    for (int j = 0; j < c.packs; ++j) sums[j] = P::of(1) / nan_unless_finite(sums[j], tops[j]);
    c.write(out, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED { return exp(c.load(x, i, j) - tops[j]) * sums[j]; });
}

template <typename T>
void log_softmax_columns(const Columns<T>& c, const T* x, T* out) {
    using P = Pack<T>;
    P tops[Columns<T>::most], sums[Columns<T>::most];
    c.tops_and_sums(x, tops, sums);
    for (int j = 0; j < c.packs; ++j) sums[j] = log(nan_unless_finite(sums[j], tops[j]));
    c.write(out, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED { return c.load(x, i, j) - tops[j] - sums[j]; });
}

template <typename T>
void logsumexp_columns(const Columns<T>& c, const T* x, T* out) {
    Pack<T> tops[Columns<T>::most], sums[Columns<T>::most];
    c.tops_and_sums(x, tops, sums);
    for (int j = 0; j < c.packs; ++j) c.store_at(log(sums[j]) + finite_or_0(tops[j]), out, j);
}

template <typename T>
void softmax_backward_columns(const Columns<T>& c, const T* y, const T* g, T* dx) {
    Pack<T> sums[Columns<T>::most];
    c.add_up(sums, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED { return c.load(y, i, j) * c.load(g, i, j); });
    c.write(dx, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED { return c.load(y, i, j) * (c.load(g, i, j) - sums[j]); });
}

template <typename T>
void log_softmax_backward_columns(const Columns<T>& c, const T* y, const T* g, T* dx) {
    Pack<T> sums[Columns<T>::most];
    c.add_up(sums, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED { return c.load(g, i, j); });
    c.write(dx, [&](ptrdiff_t i, int j) DISPOSESCOPE_INLINED { return c.load(g, i, j) - exp(c.load(y, i, j)) * sums[j]; });
}

// --- The functions of the table

// Call `of_row` with the number and offset of each row from `start` to `end`. If the axis is not the last,
// call `of_columns` with the columns of each unit, their offset, and the offset of results without the axis.
template <typename T, typename Row, typename Chunk>
void each_unit(Axis axis, ptrdiff_t start, ptrdiff_t end, Row of_row, Chunk of_columns) {
    if (axis.behind == 1) {
        for (ptrdiff_t i = start; i < end; ++i) of_row(i, i * axis.length);
        return;
    }
    const ptrdiff_t chunks = chunks_of(axis.behind, sizeof(T));
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t outer = unit / chunks, first = unit % chunks * (chunk_bytes / sizeof(T));
        of_columns(Columns<T>(axis, first), outer * axis.length * axis.behind + first,
                   outer * axis.behind + first);
    }
}

template <typename T>
void softmax(void* context, ptrdiff_t start, ptrdiff_t end) {
    const SoftmaxWork& work = *static_cast<SoftmaxWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    T* const out = static_cast<T*>(work.out);
    const ptrdiff_t n = work.axis.length;
    if (ShortRows<T>::fits(work.axis)) return softmax_short_rows(x + start * n, end - start, n, out + start * n);
    each_unit<T>(
        work.axis, start, end, [&](ptrdiff_t, ptrdiff_t at) DISPOSESCOPE_INLINED { softmax_row(x + at, n, out + at); },
        [&](const Columns<T>& c, ptrdiff_t at, ptrdiff_t) DISPOSESCOPE_INLINED { softmax_columns(c, x + at, out + at); });
}

template <typename T>
void log_softmax(void* context, ptrdiff_t start, ptrdiff_t end) {
    const SoftmaxWork& work = *static_cast<SoftmaxWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    T* const out = static_cast<T*>(work.out);
    const ptrdiff_t n = work.axis.length;
    if (ShortRows<T>::fits(work.axis)) return log_softmax_short_rows(x + start * n, end - start, n, out + start * n);
    each_unit<T>(
        work.axis, start, end,
        [&](ptrdiff_t, ptrdiff_t at) DISPOSESCOPE_INLINED { log_softmax_row(x + at, n, out + at); },
        [&](const Columns<T>& c, ptrdiff_t at, ptrdiff_t) DISPOSESCOPE_INLINED { log_softmax_columns(c, x + at, out + at); });
}

template <typename T>
void logsumexp(void* context, ptrdiff_t start, ptrdiff_t end) {
    const SoftmaxWork& work = *static_cast<SoftmaxWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    T* const out = static_cast<T*>(work.out);
    const ptrdiff_t n = work.axis.length;
    if (n > 0 && ShortRows<T>::fits(work.axis)) return logsumexp_short_rows(x + start * n, end - start, n, out + start);
    each_unit<T>(
        work.axis, start, end,
        [&](ptrdiff_t row, ptrdiff_t at) DISPOSESCOPE_INLINED { out[row] = logsumexp_row(x + at, n); },
        [&](const Columns<T>& c, ptrdiff_t at, ptrdiff_t to) DISPOSESCOPE_INLINED { logsumexp_columns(c, x + at, out + to); });
}

template <typename T>
void softmax_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const SoftmaxWork& work = *static_cast<SoftmaxWork*>(context);
    const T *const y = static_cast<const T*>(work.x), *const g = static_cast<const T*>(work.gradient);
    T* const dx = static_cast<T*>(work.out);
    each_unit<T>(
        work.axis, start, end,
        [&](ptrdiff_t, ptrdiff_t at) DISPOSESCOPE_INLINED { softmax_backward_row(y + at, g + at, work.axis.length, dx + at); },
        [&](const Columns<T>& c, ptrdiff_t at, ptrdiff_t) DISPOSESCOPE_INLINED {
            softmax_backward_columns(c, y + at, g + at, dx + at);
        });
}

template <typename T>
void log_softmax_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    const SoftmaxWork& work = *static_cast<SoftmaxWork*>(context);
    const T *const y = static_cast<const T*>(work.x), *const g = static_cast<const T*>(work.gradient);
    T* const dx = static_cast<T*>(work.out);
    each_unit<T>(
        work.axis, start, end,
        [&](ptrdiff_t, ptrdiff_t at) DISPOSESCOPE_INLINED { log_softmax_backward_row(y + at, g + at, work.axis.length, dx + at); },
        [&](const Columns<T>& c, ptrdiff_t at, ptrdiff_t) DISPOSESCOPE_INLINED {
            log_softmax_backward_columns(c, y + at, g + at, dx + at);
        });
}

// Read a class exactly once. Another thread may write to the memory, and the class that is checked must be
// the one that is used.
DISPOSESCOPE_INLINE ptrdiff_t class_of(const CrossEntropyWork& work, ptrdiff_t row) {
    return *static_cast<const volatile std::int64_t*>(work.classes + row);
}

DISPOSESCOPE_INLINE bool is_class(const CrossEntropyWork& work, ptrdiff_t number) {
    return number >= 0 && number < work.axis.length;
}

template <typename T>
void cross_entropy_short_rows(const CrossEntropyWork& work, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    const ptrdiff_t n = work.axis.length;
    for (ptrdiff_t i = start; i < end; i += ShortRows<T>::most) {
        const T* const x = static_cast<const T*>(work.x) + i * n;
        ShortRows<T> all(x, end - i, n);
        all.total = P::of(0);
        for (ptrdiff_t j = 0; j < n; ++j) all.add_exponential(j);
        T given[ShortRows<T>::most] = {};
        for (ptrdiff_t k = 0; k < all.rows; ++k) {
            const ptrdiff_t at = class_of(work, i + k);
            given[k] = is_class(work, at) ? x[k * n + at] : static_cast<T>(NAN);
        }
        (log(all.total) - (P::load(given) - all.top)).store_up_to(static_cast<T*>(work.out) + i, all.rows);
        all.top.store_up_to(static_cast<T*>(work.tops) + i, all.rows);
        all.total.store_up_to(static_cast<T*>(work.sums) + i, all.rows);
    }
}

template <typename T>
void cross_entropy(void* context, ptrdiff_t start, ptrdiff_t end) {
    const CrossEntropyWork& work = *static_cast<CrossEntropyWork*>(context);
    const ptrdiff_t n = work.axis.length;
    if (ShortRows<T>::fits(work.axis)) return cross_entropy_short_rows<T>(work, start, end);
    for (ptrdiff_t i = start; i < end; ++i) {
        const T* const x = static_cast<const T*>(work.x) + i * n;
        const T top = top_of(x, n);
        const double total = sum_of_exps<T>(x, n, top, nullptr);
        const ptrdiff_t at = class_of(work, i);
        const double value = is_class(work, at) ? double(x[at]) : NAN;
        static_cast<T*>(work.out)[i] = static_cast<T>(log(total) - (value - top));
        static_cast<T*>(work.tops)[i] = top;
        static_cast<T*>(work.sums)[i] = static_cast<T>(total);
    }
}

template <typename T>
void cross_entropy_backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    const CrossEntropyWork& work = *static_cast<CrossEntropyWork*>(context);
    const ptrdiff_t n = work.axis.length;
    for (ptrdiff_t i = start; i < end; ++i) {
        const T* const x = static_cast<const T*>(work.x) + i * n;
        T* const out = static_cast<T*>(work.out) + i * n;
        const P top = P::of(static_cast<const T*>(work.tops)[i]);
        const ptrdiff_t at = class_of(work, i);
        const double gradient = is_class(work, at) ? work.loss_gradient : NAN;
        const P scale = P::of(static_cast<T>(gradient / static_cast<const T*>(work.sums)[i]));
        write_each(x, n, out, [&](P a) DISPOSESCOPE_INLINED { return exp(a - top) * scale; });
        if (is_class(work, at)) out[at] -= static_cast<T>(gradient);
    }
}

}  // namespace

extern const Softmax softmax_kernels = {
    {softmax<float>, softmax<double>},
    {log_softmax<float>, log_softmax<double>},
    {logsumexp<float>, logsumexp<double>},
    {softmax_backward<float>, softmax_backward<double>},
    {log_softmax_backward<float>, log_softmax_backward<double>},
    {cross_entropy<float>, cross_entropy<double>},
    {cross_entropy_backward<float>, cross_entropy_backward<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
