// Compiled once for each instruction set; see simd.h.

#include "tensor/kernels/affine.h"

#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {

namespace {

// A comparison with nan is false, so nan stays nan.
template <typename T>
DISPOSESCOPE_INLINE T rectified(T x) {
    return x <= T(0) ? T(0) : x;
}

template <typename T>
void finish(void* context, std::ptrdiff_t start, std::ptrdiff_t end) {
    const Finish own = *static_cast<const Finish*>(context);
    const T* __restrict bias = static_cast<const T*>(own.bias);
    for (std::ptrdiff_t i = start; i < end; i++) {
        T* __restrict row = static_cast<T*>(own.out) + i * own.columns;
        if (bias == nullptr)
            for (std::ptrdiff_t j = 0; j < own.columns; j++) row[j] = rectified(row[j]);
        else if (own.is_rectified)
            for (std::ptrdiff_t j = 0; j < own.columns; j++) row[j] = rectified(row[j] + bias[j]);
        else
            for (std::ptrdiff_t j = 0; j < own.columns; j++) row[j] += bias[j];
    }
}

// Compute `count` rows of a unit, starting at `x` and `out`. `transposed` is the part of the weight, transposed:
// it has a row for each input.
template <typename T, int count>
void few_inputs_rows(
    const ThinMap& own, const T* x, const T* transposed, const T* bias, T* out, std::ptrdiff_t columns
) {
    using P = Pack<T>;
    for (std::ptrdiff_t j = 0; j < columns; j += P::size) {
        const std::ptrdiff_t left = columns - j;
        P sums[count];
        for (P& sum : sums) sum = P::of(0);
        for (std::ptrdiff_t k = 0; k < own.inner; ++k) {
            const P weight = P::load(transposed + k * columns_of_few_inputs + j);
            for (int i = 0; i < count; ++i) sums[i] = fma(P::of(x[i * own.inner + k]), weight, sums[i]);
        }
        const P shift = bias == nullptr ? P::of(0) : P::load_up_to(bias + j, left);
        for (int i = 0; i < count; ++i) {
            const P found = own.is_rectified ? rectified(sums[i] + shift) : sums[i] + shift;
            found.store_up_to(out + i * own.columns + j, left);
        }
    }
}

template <typename T>
void few_inputs(void* context, std::ptrdiff_t start, std::ptrdiff_t end) {
    constexpr int together = 4;
    const ThinMap& own = *static_cast<const ThinMap*>(context);
    const std::ptrdiff_t chunks = (own.columns + columns_of_few_inputs - 1) / columns_of_few_inputs;
    T transposed[most_inputs * columns_of_few_inputs] = {};
    for (std::ptrdiff_t unit = start; unit < end; ++unit) {
        const std::ptrdiff_t row = unit / chunks * rows_of_few_inputs, rows_left = own.rows - row;
        const std::ptrdiff_t column = unit % chunks * columns_of_few_inputs, columns_left = own.columns - column;
        const std::ptrdiff_t rows = rows_left < rows_of_few_inputs ? rows_left : rows_of_few_inputs;
        const std::ptrdiff_t columns = columns_left < columns_of_few_inputs ? columns_left : columns_of_few_inputs;
        const T* const x = static_cast<const T*>(own.x) + row * own.inner;
        const T* const weight = static_cast<const T*>(own.weight) + column * own.inner;
        const T* const bias = own.bias == nullptr ? nullptr : static_cast<const T*>(own.bias) + column;
        T* const out = static_cast<T*>(own.out) + row * own.columns + column;
        for (std::ptrdiff_t k = 0; k < own.inner; ++k)
            for (std::ptrdiff_t j = 0; j < columns; ++j)
                transposed[k * columns_of_few_inputs + j] = weight[j * own.inner + k];
        std::ptrdiff_t i = 0;
        for (; i + together <= rows; i += together)
            few_inputs_rows<T, together>(own, x + i * own.inner, transposed, bias, out + i * own.columns, columns);
        for (; i < rows; ++i)
            few_inputs_rows<T, 1>(own, x + i * own.inner, transposed, bias, out + i * own.columns, columns);
    }
}

// Compute a tile of `rows` by `columns` results, starting at `row`, `column`. Sum products in packs over
// blocks of 4,096 elements, and the sums of the blocks as doubles.
template <typename T, int rows, int columns>
void few_outputs_tile(const ThinMap& own, std::ptrdiff_t row, std::ptrdiff_t column) {
    using P = Pack<T>;
    constexpr std::ptrdiff_t block = 4096;
    const T* const x = static_cast<const T*>(own.x) + row * own.inner;
    const T* const weight = static_cast<const T*>(own.weight) + column * own.inner;
    double totals[rows][columns] = {};
    for (std::ptrdiff_t start = 0; start < own.inner; start += block) {
        const std::ptrdiff_t end = own.inner - start < block ? own.inner : start + block;
        P sums[rows][columns];
        for (auto& some : sums)
            for (P& sum : some) sum = P::of(0);
        const auto add = [&](auto load) DISPOSESCOPE_INLINED {
            P by[columns];
            for (int j = 0; j < columns; ++j) by[j] = load(weight + j * own.inner);
            for (int i = 0; i < rows; ++i) {
                const P values = load(x + i * own.inner);
                for (int j = 0; j < columns; ++j) sums[i][j] = fma(values, by[j], sums[i][j]);
            }
        };
        std::ptrdiff_t k = start;
        for (; k + P::size <= end; k += P::size) add([k](const T* from) DISPOSESCOPE_INLINED { return P::load(from + k); });
        if (k < end) add([k, end](const T* from) DISPOSESCOPE_INLINED { return P::load_first(from + k, end - k, 0); });
        for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) totals[i][j] += sum(sums[i][j]);
    }
    T* const out = static_cast<T*>(own.out) + row * own.columns + column;
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j) {
            const T shift = own.bias == nullptr ? T(0) : static_cast<const T*>(own.bias)[column + j];
            const T found = static_cast<T>(totals[i][j]) + shift;
            out[i * own.columns + j] = own.is_rectified ? rectified(found) : found;
        }
}

// The sides of a tile whose sums fit into registers.
template <typename T>
constexpr int tile = Pack<T>::parts == 1 ? 4 : 2;

template <typename T, int rows>
void few_outputs_rows(const ThinMap& own, std::ptrdiff_t row) {
    std::ptrdiff_t column = 0;
    for (; column + tile<T> <= own.columns; column += tile<T>) few_outputs_tile<T, rows, tile<T>>(own, row, column);
    for (; column < own.columns; ++column) few_outputs_tile<T, rows, 1>(own, row, column);
}

template <typename T>
void few_outputs(void* context, std::ptrdiff_t start, std::ptrdiff_t end) {
    const ThinMap& own = *static_cast<const ThinMap*>(context);
    std::ptrdiff_t row = start * rows_of_few_outputs, last = end * rows_of_few_outputs;
    if (last > own.rows) last = own.rows;
    for (; row + tile<T> <= last; row += tile<T>) few_outputs_rows<T, tile<T>>(own, row);
    for (; row < last; ++row) few_outputs_rows<T, 1>(own, row);
}

}  // namespace

const Affine affine_kernels = {
    finish<float>, finish<double>,
    {few_inputs<float>, few_inputs<double>}, {few_outputs<float>, few_outputs<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
