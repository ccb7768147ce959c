// Sums, extremes, and moments of channels.
//
// Blocks of 1,024 floats (of 128 rows for columns) are summed in packs. The sums of the blocks are added as
// doubles, pairwise for rows. The error for n floats is that of 22 roundings, for n doubles that of
// log2(n) + 12, as in NumPy.

#include "tensor/kernels/reduction_parts.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// --- Sums

// Return the sum of `value(offset)` over the packs of a block, and of `last` for the rest.
template <typename T, typename Value, typename Last>
DISPOSESCOPE_INLINE Pack<T> sum_of_block(ptrdiff_t start, ptrdiff_t end, Value value, Last last) {
    using P = Pack<T>;
    P sums[4] = {P::of(0), P::of(0), P::of(0), P::of(0)};
    ptrdiff_t i = start;
    for (; i + 4 * P::size <= end; i += 4 * P::size)
        for (int k = 0; k < 4; ++k) sums[k] = sums[k] + value(i + k * P::size);
    for (; i + P::size <= end; i += P::size) sums[0] = sums[0] + value(i);
    if (i < end) sums[1] = sums[1] + last(i, end - i);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

constexpr auto add = [](double a, double b) DISPOSESCOPE_INLINED { return a + b; };

template <typename T>
double sum_of_run(const T* x, ptrdiff_t n) {
    using P = Pack<T>;
    // For doubles, a block has half as many elements, so that both have the same number of additions in a
    // row.
    constexpr ptrdiff_t length = block * sizeof(float) / sizeof(T);
    const auto of_block = [x](ptrdiff_t start, ptrdiff_t end) DISPOSESCOPE_INLINED {
        return double(sum(sum_of_block<T>(
            start, end, [x](ptrdiff_t at) DISPOSESCOPE_INLINED { return P::load(x + at); },
            [x](ptrdiff_t at, ptrdiff_t left) DISPOSESCOPE_INLINED { return P::load_first(x + at, left, 0); })));
    };
    double sums[run_length / length];
    ptrdiff_t count = 0;
    for (ptrdiff_t i = 0; i < n; i += length) sums[count++] = of_block(i, n - i < length ? n : i + length);
    for (; count > 1; count = (count + 1) / 2) {
        for (ptrdiff_t i = 0; i < count / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
        if (count % 2) sums[count / 2] = sums[count - 1];
    }
    return sums[0];
}

template <typename T>
DISPOSESCOPE_INLINE void add_to(double* total, Pack<T> values, ptrdiff_t count) {
    T plain[Pack<T>::size];
    values.store(plain);
    if (count >= Pack<T>::size)
        for (int i = 0; i < Pack<T>::size; ++i) total[i] += plain[i];
    else
        for (ptrdiff_t i = 0; i < count; ++i) total[i] += plain[i];
}

// Set `total` to the sum of `value(row, pack)` over all rows, for each column.
template <typename T, typename Value>
inline void sum_columns(const Columns<T>& c, double* total, Value value) {
    using P = Pack<T>;
    for (ptrdiff_t i = 0; i < c.count; ++i) total[i] = 0;
    P sums[chunk_columns / P::size];
    for (ptrdiff_t start = 0; start < c.rows; start += rows_at_once) {
        const ptrdiff_t end = c.rows - start < rows_at_once ? c.rows : start + rows_at_once;
        for (int j = 0; j < c.packs; ++j) sums[j] = P::of(0);
        ptrdiff_t i = start;
        for (; i + together <= end; i += together)
            c.each([&](int j, auto whole) DISPOSESCOPE_INLINED {
                P some[2] = {value(i, j, whole), value(i + 1, j, whole)};
                for (int k = 2; k < together; ++k) some[k % 2] = some[k % 2] + value(i + k, j, whole);
                sums[j] = sums[j] + (some[0] + some[1]);
            });
        for (; i < end; ++i) c.each([&](int j, auto whole) DISPOSESCOPE_INLINED { sums[j] = sums[j] + value(i, j, whole); });
        for (int j = 0; j < c.packs; ++j) add_to<T>(total + j * P::size, sums[j], c.count - j * P::size);
    }
}

template <typename T>
void sum_units(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        if (are_columns(work.shape)) {
            const Columns<T> c(work, x, unit);
            sum_columns(c, work.first + c.state, [&](ptrdiff_t i, int j, auto whole) DISPOSESCOPE_INLINED {
                return c.load(c.x + i * c.stride, j, whole);
            });
        } else {
            work.first[unit] = of_part<double>(
                work.shape, work.parts, unit, [&](ptrdiff_t at, ptrdiff_t n) DISPOSESCOPE_INLINED { return sum_of_run(x + at, n); }, add);
        }
    }
}

template <typename T>
void end_sum(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    join_states<One>(work, start, end, [](One a, One b) DISPOSESCOPE_INLINED { return One{a.value + b.value}; });
    const double *const sums = work.first, divisor = work.divisor;
    const ptrdiff_t step = joined_step(work);
    T* const out = static_cast<T*>(work.out);
    for (ptrdiff_t i = start; i < end; ++i) out[i] = static_cast<T>(sums[i * step] / divisor);
}

// --- Sums of y and of y * (x - around), for the gradient of batch norm

constexpr auto add_pairs = [](Pair a, Pair b) DISPOSESCOPE_INLINED {
    return Pair{a.first + b.first, a.second + b.second};
};

template <typename T>
void products_of_columns(const Columns<T>& c, const Columns<T>& d, const T* around, double* first, double* second) {
    using P = Pack<T>;
    P sums[chunk_columns / P::size], products[chunk_columns / P::size];
    for (ptrdiff_t i = 0; i < c.count; ++i) first[i] = second[i] = 0;
    for (ptrdiff_t start = 0; start < c.rows; start += rows_at_once) {
        const ptrdiff_t end = c.rows - start < rows_at_once ? c.rows : start + rows_at_once;
        for (int j = 0; j < c.packs; ++j) sums[j] = products[j] = P::of(0);
        const auto add_rows = [&](ptrdiff_t i, auto some) DISPOSESCOPE_INLINED {
            c.each([&](int j, auto whole) DISPOSESCOPE_INLINED {
                const P centre = c.load(around, j, whole);
                P total = P::of(0), product = P::of(0);
                for (int k = 0; k < some.rows; ++k) {
                    const P y = d.load(d.x + (i + k) * d.stride, j, whole);
                    total = total + y;
                    product = fma(y, c.load(c.x + (i + k) * c.stride, j, whole) - centre, product);
                }
                sums[j] = sums[j] + total;
                products[j] = products[j] + product;
            });
        };
        ptrdiff_t i = start;
        for (; i + together <= end; i += together) add_rows(i, Together());
        for (; i < end; ++i) add_rows(i, Alone());
        for (int j = 0; j < c.packs; ++j) {
            add_to<T>(first + j * P::size, sums[j], c.count - j * P::size);
            add_to<T>(second + j * P::size, products[j], c.count - j * P::size);
        }
    }
}

template <typename T>
void product_units(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    const T *const x = static_cast<const T*>(work.x), *const y = static_cast<const T*>(work.y);
    const T* const around = static_cast<const T*>(work.around);
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        if (are_columns(work.shape)) {
            const Columns<T> c(work, x, unit), d(work, y, unit);
            const T* const centre = around + c.state % c.stride;
            products_of_columns(c, d, centre, work.first + c.state, work.second + c.state);
            continue;
        }
        const P centre = P::of(around[unit / work.parts.parts]);
        const Pair found = of_part<Pair>(
            work.shape, work.parts, unit,
            [&](ptrdiff_t at, ptrdiff_t n) DISPOSESCOPE_INLINED {
                Pair total{0, 0};
                for (ptrdiff_t i = 0; i < n; i += block) {
                    const ptrdiff_t last = n - i < block ? n : i + block;
                    total.first += sum(sum_of_block<T>(
                        at + i, at + last, [&](ptrdiff_t k) DISPOSESCOPE_INLINED { return P::load(y + k); },
                        [&](ptrdiff_t k, ptrdiff_t left) DISPOSESCOPE_INLINED { return P::load_first(y + k, left, 0); }));
                    total.second += sum(sum_of_block<T>(
                        at + i, at + last, [&](ptrdiff_t k) DISPOSESCOPE_INLINED { return P::load(y + k) * (P::load(x + k) - centre); },
                        [&](ptrdiff_t k, ptrdiff_t left) DISPOSESCOPE_INLINED {
                            return P::load_first(y + k, left, 0) * (P::load_first(x + k, left, 0) - centre);
                        }));
                }
                return total;
            },
            add_pairs);
        work.first[unit] = found.first;
        work.second[unit] = found.second;
    }
}

template <typename T>
void end_products(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    join_states<Pair>(work, start, end, add_pairs);
    const double *const sums = work.first, *const products = work.second;
    const ptrdiff_t step = joined_step(work);
    T *const out = static_cast<T*>(work.out), *const other = static_cast<T*>(work.other);
    for (ptrdiff_t i = start; i < end; ++i) {
        out[i] = static_cast<T>(sums[i * step]);
        other[i] = static_cast<T>(products[i * step]);
    }
}

// --- Extremes

// Larger and Smaller: comparisons for maximum and minimum. nan is better than any number.
struct Larger {
    static constexpr int sign = 1;
    template <typename R>
    static DISPOSESCOPE_INLINE auto beats(R a, R b) { return (a > b) | (a != a); }
    template <typename R>
    static DISPOSESCOPE_INLINE R better(R best, R x) {
        x = x < best ? best : x;  // `x` if it is nan
        return best != best ? best : x;
    }
    // This is a single instruction. If one operand is nan, the result may be either operand.
    template <typename R>
    static DISPOSESCOPE_INLINE R better_number(R a, R b) { return a > b ? a : b; }
};

struct Smaller {
    static constexpr int sign = -1;
    template <typename R>
    static DISPOSESCOPE_INLINE auto beats(R a, R b) { return (a < b) | (a != a); }
    template <typename R>
    static DISPOSESCOPE_INLINE R better(R best, R x) {
        x = x > best ? best : x;
        return best != best ? best : x;
    }
    template <typename R>
    static DISPOSESCOPE_INLINE R better_number(R a, R b) { return a < b ? a : b; }
};

// The best values of packs, and the lanes that had a nan. Recording these lanes is faster than propagating
// nans.
template <typename By, typename T>
struct Best {
    using P = Pack<T>;
    P number;
    LanesWithNan<typename P::Register> nans[P::parts];

    // Include the values of two packs.
    DISPOSESCOPE_INLINE void join(P a, P b) {
        number = map(number, map(a, b, By::template better_number<typename P::Register>),
                     By::template better_number<typename P::Register>);
        for (int i = 0; i < P::parts; ++i) nans[i].note(a.part[i], b.part[i]);
    }
    DISPOSESCOPE_INLINE void join(const Best& other) {
        number = map(number, other.number, By::template better_number<typename P::Register>);
        for (int i = 0; i < P::parts; ++i) nans[i].note(other.nans[i]);
    }
    // Return the best values, with nan in lanes that had one.
    DISPOSESCOPE_INLINE P value() const {
        P found = number;
        for (int i = 0; i < P::parts; ++i) found.part[i] = nans[i].in(found.part[i]);
        return found;
    }
};

template <typename By>
constexpr auto better_of_two = [](double best, double x) DISPOSESCOPE_INLINED { return By::beats(x, best) ? x : best; };

// The identity of the comparison: -infinity for a maximum, infinity for a minimum.
template <typename By, typename T>
DISPOSESCOPE_INLINE T worst() { return -By::sign * infinity<T>(); }

template <typename By, typename T>
double best_of_run(const T* x, ptrdiff_t n) {
    using P = Pack<T>;
    const auto better = [](auto a, auto b) DISPOSESCOPE_INLINED { return By::better(a, b); };
    if (n <= P::size) return join(P::load_up_to(x, n, worst<By, T>()), better);  // 7 ns instead of 24
    const P none = P::of(worst<By, T>());
    Best<By, T> best[4];
    for (auto& some : best) some = {none, {}};
    ptrdiff_t i = 0;
    for (; i + 8 * P::size <= n; i += 8 * P::size)
        for (int k = 0; k < 4; ++k)
            best[k].join(P::load(x + i + 2 * k * P::size), P::load(x + i + (2 * k + 1) * P::size));
    for (; i + 2 * P::size <= n; i += 2 * P::size) best[0].join(P::load(x + i), P::load(x + i + P::size));
    if (i + P::size <= n) {
        best[1].join(P::load(x + i), none);
        i += P::size;
    }
    if (i < n) best[2].join(P::load_first(x + i, n - i, worst<By, T>()), none);
    best[0].join(best[1]);
    best[2].join(best[3]);
    best[0].join(best[2]);
    return join(best[0].value(), better);
}

template <typename By, typename T>
void best_of_columns(const Columns<T>& c, double* states) {
    using P = Pack<T>;
    const P none = P::of(worst<By, T>());
    Best<By, T> best[chunk_columns / P::size];
    for (int j = 0; j < c.packs; ++j) best[j] = {none, {}};
    ptrdiff_t i = 0;
    for (; i + together <= c.rows; i += together)
        c.each([&](int j, auto whole) DISPOSESCOPE_INLINED {
            Best<By, T> some = best[j];
            for (int k = 0; k < together; k += 2)
                some.join(c.load(c.x + (i + k) * c.stride, j, whole), c.load(c.x + (i + k + 1) * c.stride, j, whole));
            best[j] = some;
        });
    for (; i < c.rows; ++i)
        c.each([&](int j, auto whole) DISPOSESCOPE_INLINED { best[j].join(c.load(c.x + i * c.stride, j, whole), none); });
    for (int j = 0; j < c.packs; ++j) {
        T plain[P::size];
        best[j].value().store(plain);
        const ptrdiff_t left = c.count - j * P::size;
        for (ptrdiff_t k = 0; k < left && k < P::size; ++k) states[j * P::size + k] = plain[k];
    }
}

template <typename By, typename T>
void best_units(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        if (are_columns(work.shape)) {
            const Columns<T> c(work, x, unit);
            best_of_columns<By>(c, work.first + c.state);
        } else {
            work.first[unit] = of_part<double>(
                work.shape, work.parts, unit,
                [&](ptrdiff_t at, ptrdiff_t n) DISPOSESCOPE_INLINED { return best_of_run<By>(x + at, n); }, better_of_two<By>);
        }
    }
}

template <typename By, typename T>
void end_best(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    join_states<One>(work, start, end, [](One a, One b) DISPOSESCOPE_INLINED { return One{By::better(a.value, b.value)}; });
    const double* const best = work.first;
    const ptrdiff_t step = joined_step(work);
    T* const out = static_cast<T*>(work.out);
    for (ptrdiff_t i = start; i < end; ++i) out[i] = static_cast<T>(best[i * step]);
}

// --- Indices of extremes, by columns

template <typename By, typename T>
void place_units(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    using R = typename P::Register;
    using Bits = BitsOf<R>;
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    constexpr int rows_of_group = 4;
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const Columns<T> c(work, work.x, unit);
        P best[chunk_columns / P::size];
        Bits places[chunk_columns / P::size][P::parts];
        c.each([&](int j, auto whole) DISPOSESCOPE_INLINED {
            best[j] = c.load(c.x, j, whole);
            for (int p = 0; p < P::parts; ++p) places[j][p] = Bits{};
        });
        for (ptrdiff_t i = 1; i < c.rows; i += rows_of_group) {
            const int some = c.rows - i < rows_of_group ? static_cast<int>(c.rows - i) : rows_of_group;
            c.each([&](int j, auto whole) DISPOSESCOPE_INLINED {
                for (int k = 0; k < some; ++k) {
                    const P x = c.load(c.x + (i + k) * c.stride, j, whole);
                    for (int p = 0; p < P::parts; ++p) {
                        const R a = best[j].part[p], b = x.part[p];
                        // Keep the first nan.
                        const auto is_better = By::beats(b, a) & (a == a);
                        best[j].part[p] = is_better ? b : a;
                        const auto row = Bits{} + static_cast<typename Of<T>::Bits>(i + k);
                        places[j][p] = is_better ? row : places[j][p];
                    }
                }
            });
        }
        for (int j = 0; j < c.packs; ++j) {
            T plain[P::size];
            best[j].store(plain);
            typename Of<T>::Bits rows[P::size];
            std::memcpy(rows, places[j], sizeof(rows));
            for (ptrdiff_t k = 0; k < P::size && j * P::size + k < c.count; ++k) {
                work.first[c.state + j * P::size + k] = plain[k];
                work.second[c.state + j * P::size + k] = static_cast<double>(c.first_row + rows[k]);
            }
        }
    }
}

template <typename By, typename T>
void end_place(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    join_states<Pair>(work, start, end, [](Pair a, Pair b) DISPOSESCOPE_INLINED {
        const bool is_better = By::beats(b.first, a.first) & (a.first == a.first);
        return Pair{is_better ? b.first : a.first, is_better ? b.second : a.second};
    });
    const double* const places = work.second;
    std::int64_t* const out = static_cast<std::int64_t*>(work.out);
    for (ptrdiff_t i = start; i < end; ++i) out[i] = static_cast<std::int64_t>(places[i]);
}

// --- Mean and sum of squared deviations

template <typename T>
void moments_of_columns(const Columns<T>& c, const T* origins, double* means, double* squares) {
    using P = Pack<T>;
    // Sum the deviations of a group of 64 rows from the mean of its first 8 rows. If this mean differs from
    // the group's mean by d, the squared deviations of these 8 rows alone sum to at least 8 * d * d. So the
    // correction subtracted at the end, 64 * d * d, is at most 8 times the result.
    constexpr ptrdiff_t rows_of_group = 64;
    P centres[chunk_columns / P::size], sums[chunk_columns / P::size], all[chunk_columns / P::size];
    T plain[3][chunk_columns];
    for (ptrdiff_t start = 0; start < c.rows; start += rows_of_group) {
        const ptrdiff_t rows = c.rows - start < rows_of_group ? c.rows - start : rows_of_group;
        const ptrdiff_t first_rows = rows < together ? rows : together;
        const T* const x = c.x + start * c.stride;
        const P share = P::of(T(1) / static_cast<T>(first_rows));
        c.each([&](int j, auto whole) DISPOSESCOPE_INLINED {
            P total = P::of(0);
            for (ptrdiff_t k = 0; k < first_rows; ++k) total = total + c.load(x + k * c.stride, j, whole);
            centres[j] = total * share;
            sums[j] = all[j] = P::of(0);
        });
        const auto add_rows = [&](ptrdiff_t i, auto some) DISPOSESCOPE_INLINED {
            c.each([&](int j, auto whole) DISPOSESCOPE_INLINED {
                P total = sums[j], square = all[j];
                const P centre = centres[j];
                for (int k = 0; k < some.rows; ++k) {
                    const P d = c.load(x + (i + k) * c.stride, j, whole) - centre;
                    total = total + d;
                    square = fma(d, d, square);
                }
                sums[j] = total;
                all[j] = square;
            });
        };
        ptrdiff_t i = 0;
        for (; i + together <= rows; i += together) add_rows(i, Together());
        for (; i < rows; ++i) add_rows(i, Alone());
        for (int j = 0; j < c.packs; ++j) {
            centres[j].store(plain[0] + j * P::size);
            sums[j].store(plain[1] + j * P::size);
            all[j].store(plain[2] + j * P::size);
        }
        // Like `join_moments`, for all columns.
        const double count = static_cast<double>(rows), before = static_cast<double>(start);
        const double one = 1 / count, part = count / (before + count);
        for (ptrdiff_t i = 0; i < c.count; ++i) {
            const double sum = plain[1][i], mean = double(plain[0][i]) - origins[i] + sum * one;
            const double left = plain[2][i] - sum * sum * one, square = left < 0 ? 0 : left;
            if (start == 0) {
                means[i] = mean;
                squares[i] = square;
                continue;
            }
            const double distance = mean - means[i];
            means[i] += distance * part;
            squares[i] += square + distance * distance * before * part;
        }
    }
}

template <typename T>
void moment_units(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    const T* const x = static_cast<const T*>(work.x);
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        if (are_columns(work.shape)) {
            const Columns<T> c(work, x, unit);
            moments_of_columns(c, x + c.state % c.stride, work.first + c.state, work.second + c.state);
        } else {
            const double origin = x[unit / work.parts.parts * work.shape.inner];
            const Moments found = of_part<Moments>(
                work.shape, work.parts, unit,
                [&](ptrdiff_t at, ptrdiff_t n) DISPOSESCOPE_INLINED { return moments_of_run(x + at, n, origin); }, join_moments);
            work.first[unit] = found.mean;
            work.second[unit] = found.squares;
        }
    }
}

template <typename T>
void end_moments(void* context, ptrdiff_t start, ptrdiff_t end) {
    const ReductionWork& work = *static_cast<ReductionWork*>(context);
    join_states<Moments>(work, start, end, join_moments);
    const double *const means = work.first, *const squares = work.second, divisor = work.divisor;
    const ptrdiff_t step = joined_step(work), inner = work.shape.inner;
    T* const out = static_cast<T*>(work.out);
    for (ptrdiff_t i = start; i < end; ++i) out[i] = static_cast<T>(squares[i * step] / divisor);
    if (work.other == nullptr) return;
    const T* const origins = static_cast<const T*>(work.x);
    T* const other = static_cast<T*>(work.other);
    for (ptrdiff_t i = start; i < end; ++i) other[i] = static_cast<T>(means[i * step] + origins[i * inner]);
}

}  // namespace

extern const Reductions reductions_kernels = {
    {sum_units<float>, sum_units<double>},
    {best_units<Larger, float>, best_units<Larger, double>},
    {best_units<Smaller, float>, best_units<Smaller, double>},
    {place_units<Larger, float>, place_units<Larger, double>},
    {place_units<Smaller, float>, place_units<Smaller, double>},
    {moment_units<float>, moment_units<double>},
    {product_units<float>, product_units<double>},
    {end_sum<float>, end_sum<double>},
    {end_best<Larger, float>, end_best<Larger, double>},
    {end_best<Smaller, float>, end_best<Smaller, double>},
    {end_place<Larger, float>, end_place<Larger, double>},
    {end_place<Smaller, float>, end_place<Smaller, double>},
    {end_moments<float>, end_moments<double>},
    {end_products<float>, end_products<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
