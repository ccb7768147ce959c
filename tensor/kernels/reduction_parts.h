// The parts of channels that reductions process one by one, and their states (channels.h).

#pragma once

#include "tensor/kernels/reductions.h"
#include "tensor/kernels/rows.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// The number of rows read together, and of rows summed as floats before their sums become doubles.
constexpr int together = 8;
constexpr ptrdiff_t rows_at_once = 128;

// Call f(offset, length) for the contiguous ranges of the part `unit`, and join the results.
template <typename State, typename Function, typename Join>
State of_part(Channels shape, Parts parts, ptrdiff_t unit, Function f, Join join) {
    if (parts.parts == 1 && shape.outer == 1) return f(unit * shape.inner, shape.inner);
    const ptrdiff_t channel = unit / parts.parts, part = unit % parts.parts;
    if (shape.inner >= run_length) {
        const ptrdiff_t runs = ceil_of(shape.inner, run_length);
        const ptrdiff_t outer = part / runs, start = part % runs * run_length;
        const ptrdiff_t left = shape.inner - start;
        return f((outer * shape.count + channel) * shape.inner + start, left < run_length ? left : run_length);
    }
    const ptrdiff_t start = part * parts.length, left = shape.outer - start;
    return by_halves<State>(
        start, left < parts.length ? left : parts.length,
        [&](ptrdiff_t outer) DISPOSESCOPE_INLINED { return f((outer * shape.count + channel) * shape.inner, shape.inner); }, join);
}

// The number of rows read at once.
struct Together {
    static constexpr int rows = together;
};
struct Alone {
    static constexpr int rows = 1;
};

// Tags for a complete pack of a row, and for the last one with fewer columns.
struct Whole {};
struct Last {};

// A unit of work on columns: some columns of some rows.
template <typename T>
struct Columns {
    using P = Pack<T>;
    const T* x;
    ptrdiff_t rows, stride, count, state, first_row;
    int packs;

    DISPOSESCOPE_INLINE Columns(const ReductionWork& work, const void* array, ptrdiff_t unit) : stride(work.shape.count) {
        const ptrdiff_t part = unit / work.parts.chunks, chunk = unit % work.parts.chunks;
        first_row = part * work.parts.length;
        const ptrdiff_t left_rows = work.shape.outer - first_row;
        rows = left_rows < work.parts.length ? left_rows : work.parts.length;
        const ptrdiff_t column = chunk * chunk_columns, left = stride - column;
        count = left < chunk_columns ? left : chunk_columns;
        packs = static_cast<int>(ceil_of(count, P::size));
        x = static_cast<const T*>(array) + first_row * stride + column;
        state = part * stride + column;
    }

    DISPOSESCOPE_INLINE P load(const T* from, int j, Whole) const { return P::load(from + j * P::size); }
    DISPOSESCOPE_INLINE P load(const T* from, int j, Last) const { return P::load_first(from + j * P::size, count - j * P::size, 0); }

    // Call f(j, whole) for each pack of a row.
    template <typename Function>
    DISPOSESCOPE_INLINE void each(Function f) const {
        const int whole = static_cast<int>(count / P::size);
        for (int j = 0; j < whole; ++j) f(j, Whole());
        if (whole < packs) f(whole, Last());
    }
};

// --- States of parts

// Return the number of elements of part `i` of a channel.
DISPOSESCOPE_INLINE double count_of_part(const ReductionWork& work, ptrdiff_t i) {
    if (!are_columns(work.shape) && work.shape.inner >= run_length) {
        const ptrdiff_t start = i % ceil_of(work.shape.inner, run_length) * run_length;
        const ptrdiff_t left = work.shape.inner - start;
        return static_cast<double>(left < run_length ? left : run_length);
    }
    const ptrdiff_t left = work.shape.outer - i * work.parts.length;
    return static_cast<double>((left < work.parts.length ? left : work.parts.length) * work.shape.inner);
}

// Join the states of each channel from `start` to `end` into its first state. A `State` is loaded from two
// arrays, together with its number of elements.
template <typename State, typename Join>
inline void join_states(const ReductionWork& work, ptrdiff_t start, ptrdiff_t end, Join join) {
    const ptrdiff_t parts = work.parts.parts, count = work.shape.count;
    double *const first = work.first, *const second = work.second;
    if (parts == 1) return;
    if (are_columns(work.shape)) {
        double before = count_of_part(work, 0);
        for (ptrdiff_t part = 1; part < parts; ++part) {
            const double own = count_of_part(work, part);
            const double *const a = first + part * count, *const b = second + part * count;
            for (ptrdiff_t i = start; i < end; ++i)
                join(State::load(first, second, i, before), State::load(a, b, i, own)).store(first, second, i);
            before += own;
        }
        return;
    }
    for (ptrdiff_t at = start * parts; at < end * parts; at += parts) {
        const auto load = [&](ptrdiff_t i) DISPOSESCOPE_INLINED { return State::load(first, second, at + i, count_of_part(work, i)); };
        by_halves<State>(0, parts, load, join).store(first, second, at);
    }
}

// States with one and two numbers.
struct One {
    double value;
    static DISPOSESCOPE_INLINE One load(const double* values, const double*, ptrdiff_t at, double) { return {values[at]}; }
    DISPOSESCOPE_INLINE void store(double* values, double*, ptrdiff_t at) const { values[at] = value; }
};

struct Pair {
    double first, second;
    static DISPOSESCOPE_INLINE Pair load(const double* first, const double* second, ptrdiff_t at, double) {
        return {first[at], second[at]};
    }
    DISPOSESCOPE_INLINE void store(double* to, double* to_other, ptrdiff_t at) const {
        to[at] = first;
        to_other[at] = second;
    }
};

// The distance between the joined states of adjacent channels.
DISPOSESCOPE_INLINE ptrdiff_t joined_step(const ReductionWork& work) { return are_columns(work.shape) ? 1 : work.parts.parts; }

}  // namespace
}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
