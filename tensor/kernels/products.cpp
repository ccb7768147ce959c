// Compiled once for each instruction set; see simd.h.

#include "tensor/kernels/products.h"

#include "tensor/kernels/transposing.h"
#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// The rows and packs of columns of the result that registers hold at once.
template <typename T>
constexpr int tile_packs = Pack<T>::parts == 1 ? 2 : 1;
template <typename T>
constexpr int tile_rows = Pack<T>::parts == 1 ? 8 : Pack<T>::parts == 2 ? 6 : 2;

template <typename T>
constexpr ptrdiff_t width = panel_bytes / sizeof(T);

// `inner` rows of a matrix, with these strides of its elements.
struct Panels {
    ptrdiff_t inner, b_inner, b_column;
};

// Copy `columns` columns of a matrix to a panel.
template <typename T>
void lay_out_panel(const Panels& own, const T* b, ptrdiff_t columns, T* to) {
    ptrdiff_t whole_rows = 0, whole_columns = 0;
    if (own.b_column == 1) {
        for (ptrdiff_t k = 0; k < own.inner; ++k, b += own.b_inner, to += width<T>) {
            if (columns == width<T>)
                std::memcpy(to, b, sizeof(T) * width<T>);
            else
                for (ptrdiff_t j = 0; j < width<T>; ++j) to[j] = j < columns ? b[j] : T(0);
        }
        return;
    }
    if (columns < width<T>) {
        // Fill with zeros after the last column, but only as far as the kernel reads.
        const ptrdiff_t filled = columns <= Pack<T>::size ? ptrdiff_t{Pack<T>::size} : width<T>;
        for (ptrdiff_t k = 0; k < own.inner; ++k)
            for (ptrdiff_t j = 0; j < filled; j += Pack<T>::size) Pack<T>::of(0).store(to + k * width<T> + j);
    }
    if (own.b_inner == 1) {
        whole_rows = own.inner - own.inner % 4;
        whole_columns = columns - columns % 4;
        // The rows of the panel that stay in the first-level cache until all their columns are written.
        constexpr ptrdiff_t at_once = 64;
        for (ptrdiff_t first = 0; first < whole_rows; first += at_once) {
            const ptrdiff_t end = whole_rows - first < at_once ? whole_rows : first + at_once;
            for (ptrdiff_t j = 0; j < whole_columns; j += 4)
                for (ptrdiff_t k = first; k < end; k += 4)
                    transpose_block(b + j * own.b_column + k, to + k * width<T> + j, own.b_column, width<T>);
        }
    }
    for (ptrdiff_t j = 0; j < columns; ++j)
        for (ptrdiff_t k = j < whole_columns ? whole_rows : 0; k < own.inner; ++k)
            to[k * width<T> + j] = b[k * own.b_inner + j * own.b_column];
}

// The location of some rows of the first factor, and the strides of its elements and of the result.
template <typename T>
struct Rows {
    const T* a;
    ptrdiff_t row, step;
    T* out;
    ptrdiff_t out_row;
    DISPOSESCOPE_INLINE Rows from(ptrdiff_t i) const { return {a + i * row, row, step, out + i * out_row, out_row}; }
};

// What to do with the sums of a part of the products: if `is_more`, add them to the existing results. For the
// last part, also add `bias` of these columns (or null) and, if `is_rectified`, set negative values to 0.
template <typename T>
struct Epilogue {
    bool is_more;
    const T* bias;
    bool is_rectified;
    DISPOSESCOPE_INLINE Epilogue behind(ptrdiff_t columns) const { return {is_more, bias == nullptr ? bias : bias + columns, is_rectified}; }
};

// Multiply `rows` rows by some packs of columns of a panel.
template <typename T, int rows, int packs>
inline void tile(Rows<T> own, const T* panel, ptrdiff_t inner, ptrdiff_t columns, Epilogue<T> epilogue) {
    using P = Pack<T>;
    P sums[rows][packs];
    DISPOSESCOPE_UNROLLED
    for (auto& some : sums)
        DISPOSESCOPE_UNROLLED
        for (P& sum : some) sum = P::of(0);
    const T* a = own.a;
    for (ptrdiff_t k = inner; k > 0; --k, a += own.step, panel += width<T>) {
        P by[packs];
        DISPOSESCOPE_UNROLLED
        for (int j = 0; j < packs; ++j) by[j] = P::load(panel + j * P::size);
        DISPOSESCOPE_UNROLLED
        for (int i = 0; i < rows; ++i) {
            const P x = P::of(a[i * own.row]);
            DISPOSESCOPE_UNROLLED
            for (int j = 0; j < packs; ++j) sums[i][j] = fma(x, by[j], sums[i][j]);
        }
    }
    DISPOSESCOPE_UNROLLED
    for (int j = 0; j < packs; ++j) {
        const ptrdiff_t left = columns - j * P::size;
        if (left <= 0) continue;
        const P shift = epilogue.bias == nullptr ? P::of(0) : P::load_up_to(epilogue.bias + j * P::size, left);
        DISPOSESCOPE_UNROLLED
        for (int i = 0; i < rows; ++i) {
            T* const to = own.out + i * own.out_row + j * P::size;
            P found = epilogue.is_more ? P::load_up_to(to, left) + sums[i][j] : sums[i][j];
            if (epilogue.bias != nullptr) found = found + shift;
            if (epilogue.is_rectified) found = rectified(found);
            found.store_up_to(to, left);
        }
    }
}

template <typename T, int packs>
void some_rows(Rows<T> own, ptrdiff_t rows, const T* panel, ptrdiff_t inner, ptrdiff_t columns, Epilogue<T> epilogue) {
    constexpr int together = tile_rows<T>;
    ptrdiff_t i = 0;
    for (; i + together <= rows; i += together) tile<T, together, packs>(own.from(i), panel, inner, columns, epilogue);
    if (together > 4 && i + 4 <= rows) {
        tile<T, 4, packs>(own.from(i), panel, inner, columns, epilogue);
        i += 4;
    }
    if (together > 2 && i + 2 <= rows) {
        tile<T, 2, packs>(own.from(i), panel, inner, columns, epilogue);
        i += 2;
    }
    if (i < rows) tile<T, 1, packs>(own.from(i), panel, inner, columns, epilogue);
}

// Multiply some rows by the columns of a panel.
template <typename T>
void rows_by_panel(Rows<T> own, ptrdiff_t rows, const T* panel, ptrdiff_t inner, ptrdiff_t columns, Epilogue<T> epilogue) {
    constexpr ptrdiff_t at_once = tile_packs<T>* Pack<T>::size;
    for (ptrdiff_t j = 0; j < columns; j += at_once, panel += at_once, own.out += at_once) {
        if (columns - j <= Pack<T>::size)
            some_rows<T, 1>(own, rows, panel, inner, columns - j, epilogue.behind(j));
        else
            some_rows<T, tile_packs<T>>(own, rows, panel, inner, columns - j, epilogue.behind(j));
    }
}

template <typename T>
void stacked(void* context, ptrdiff_t start, ptrdiff_t end) {
    const StackedProducts& own = *static_cast<const StackedProducts*>(context);
    const Panels layout{own.inner, own.b_inner, own.b_column};
    alignas(64) T panel[most_inner * width<T>];
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const T *a = static_cast<const T*>(own.a), *b = static_cast<const T*>(own.b);
        ptrdiff_t place = unit;
        for (int i = own.ndim - 1; i >= 0; --i) {
            const ptrdiff_t at = place % own.sizes[i];
            place /= own.sizes[i];
            a += at * own.a_steps[i];
            b += at * own.b_steps[i];
        }
        T* const out = static_cast<T*>(own.out) + unit * own.rows * own.columns;
        for (ptrdiff_t column = 0; column < own.columns; column += width<T>) {
            const ptrdiff_t left = own.columns - column, columns = left < width<T> ? left : width<T>;
            lay_out_panel(layout, b + column * own.b_column, columns, panel);
            rows_by_panel<T>({a, own.a_row, own.a_inner, out + column, own.columns}, own.rows, panel, own.inner, columns, {});
        }
    }
}

// Apply an elementwise function to some rows of at most a panel's columns, with stride `row`. `to` may be
// `from`.
template <typename T>
void map_rows(Loop function, const T* from, T* to, ptrdiff_t rows, ptrdiff_t columns, ptrdiff_t row) {
    constexpr ptrdiff_t at_once = 32;
    alignas(64) T values[at_once * width<T>];
    Operands operands{values, nullptr, values, 0, 1};
    for (ptrdiff_t i = 0; i < rows; i += at_once) {
        const ptrdiff_t some = rows - i < at_once ? rows - i : at_once;
        for (ptrdiff_t k = 0; k < some; ++k)
            std::memcpy(values + k * columns, from + (i + k) * row, sizeof(T) * columns);
        function(&operands, 0, some * columns);
        for (ptrdiff_t k = 0; k < some; ++k)
            std::memcpy(to + (i + k) * row, values + k * columns, sizeof(T) * columns);
    }
}

template <typename T>
void whole(void* context, ptrdiff_t start, ptrdiff_t end) {
    const MatrixProduct& own = *static_cast<const MatrixProduct*>(context);
    const ptrdiff_t units = (own.rows + own.rows_of_unit - 1) / own.rows_of_unit;
    // If the elements of a row of `a` are not contiguous, the same cache lines have elements of the next
    // rows. Take half as many elements then, so that these lines are still in the cache for the next rows.
    const ptrdiff_t at_once = own.a_inner == 1 ? most_inner : most_inner / 2;
    alignas(64) T panel[most_inner * width<T>];
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t column = unit / units * width<T>, row = unit % units * own.rows_of_unit;
        const ptrdiff_t left = own.columns - column, columns = left < width<T> ? left : width<T>;
        const ptrdiff_t rows_left = own.rows - row, rows = rows_left < own.rows_of_unit ? rows_left : own.rows_of_unit;
        const T* const bias = own.bias == nullptr ? nullptr : static_cast<const T*>(own.bias) + column;
        const ptrdiff_t place = row * own.columns + column;
        T* const out = static_cast<T*>(own.out) + place;
        for (ptrdiff_t k = 0; k < own.inner; k += at_once) {
            const ptrdiff_t inner = own.inner - k < at_once ? own.inner - k : at_once;
            const T* const a = static_cast<const T*>(own.a) + row * own.a_row + k * own.a_inner;
            const T* const b = static_cast<const T*>(own.b) + k * own.b_inner + column * own.b_column;
            const bool is_last = k + inner == own.inner;
            lay_out_panel({inner, own.b_inner, own.b_column}, b, columns, panel);
            rows_by_panel<T>({a, own.a_row, own.a_inner, out, own.columns}, rows, panel, inner, columns,
                             {k > 0, is_last ? bias : nullptr, is_last && own.is_rectified});
        }
        if (own.function != nullptr)
            map_rows<T>(own.function, out, static_cast<T*>(own.mapped) + place, rows, columns, own.columns);
    }
}

}  // namespace

extern const Products products_kernels = {
    {stacked<float>, stacked<double>},
    {whole<float>, whole<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
