// Compiled once for each instruction set; see simd.h.

#include "tensor/kernels/products.h"

#include "tensor/kernels/transposing.h"
#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// Of the result so many rows and packs of columns are in registers at once.
template <typename T>
constexpr int tile_packs = Pack<T>::parts == 1 ? 2 : 1;
template <typename T>
constexpr int tile_rows = Pack<T>::parts == 1 ? 8 : Pack<T>::parts == 2 ? 4 : 2;
template <typename T>
constexpr ptrdiff_t panel_columns = tile_packs<T>* Pack<T>::size;

// Lays some columns of the second factor out as the tiles read them: row after row, zeros behind the last column.
template <typename T>
void pack_panel(const StackedProducts& own, const T* b, ptrdiff_t columns, T* to) {
    constexpr ptrdiff_t width = panel_columns<T>;
    ptrdiff_t whole_rows = 0, whole_columns = 0;
    if (own.b_column == 1) {
        for (ptrdiff_t k = 0; k < own.inner; ++k, b += own.b_inner, to += width) {
            if (columns == width)
                std::memcpy(to, b, sizeof(T) * width);
            else
                for (ptrdiff_t j = 0; j < width; ++j) to[j] = j < columns ? b[j] : T(0);
        }
        return;
    }
    if (own.b_inner == 1) {
        whole_rows = own.inner - own.inner % 4;
        whole_columns = columns - columns % 4;
        for (ptrdiff_t j = 0; j < whole_columns; j += 4)
            for (ptrdiff_t k = 0; k < whole_rows; k += 4)
                transpose_block(b + j * own.b_column + k, to + k * width + j, own.b_column, width);
    }
    for (ptrdiff_t k = 0; k < own.inner; ++k)
        for (ptrdiff_t j = k < whole_rows ? whole_columns : 0; j < width; ++j)
            to[k * width + j] = j < columns ? b[k * own.b_inner + j * own.b_column] : T(0);
}

template <typename T, int rows, int packs>
inline void tile(const StackedProducts& own, const T* a, const T* panel, ptrdiff_t columns, T* out) {
    using P = Pack<T>;
    P sums[rows][packs];
    for (auto& some : sums)
        for (P& sum : some) sum = P::of(0);
    const ptrdiff_t row = own.a_row, step = own.a_inner;
    for (ptrdiff_t k = own.inner; k > 0; --k, a += step, panel += panel_columns<T>) {
        P by[packs];
        for (int j = 0; j < packs; ++j) by[j] = P::load(panel + j * P::size);
        for (int i = 0; i < rows; ++i) {
            const P x = P::of(a[i * row]);
            for (int j = 0; j < packs; ++j) sums[i][j] = fma(x, by[j], sums[i][j]);
        }
    }
    for (int i = 0; i < rows; ++i)
        for (int j = 0; j < packs; ++j) {
            const ptrdiff_t left = columns - j * P::size;
            T* const to = out + i * own.columns + j * P::size;
            if (left >= P::size)
                sums[i][j].store(to);
            else if (left > 0)
                sums[i][j].store_first(to, left);
        }
}

// All rows of the result, of so many packs of columns.
template <typename T, int packs>
void multiply_by_panel(const StackedProducts& own, const T* a, const T* panel, ptrdiff_t columns, T* out) {
    constexpr int rows = tile_rows<T>;
    ptrdiff_t i = 0;
    for (; i + rows <= own.rows; i += rows)
        tile<T, rows, packs>(own, a + i * own.a_row, panel, columns, out + i * own.columns);
    if (i + rows / 2 <= own.rows) {
        tile<T, rows / 2, packs>(own, a + i * own.a_row, panel, columns, out + i * own.columns);
        i += rows / 2;
    }
    for (; i < own.rows; ++i) tile<T, 1, packs>(own, a + i * own.a_row, panel, columns, out + i * own.columns);
}

template <typename T>
void multiply(const StackedProducts& own, const T* a, const T* b, T* out, T* panel) {
    for (ptrdiff_t column = 0; column < own.columns; column += panel_columns<T>) {
        const ptrdiff_t left = own.columns - column, columns = left < panel_columns<T> ? left : panel_columns<T>;
        pack_panel(own, b + column * own.b_column, columns, panel);
        if (columns <= Pack<T>::size)
            multiply_by_panel<T, 1>(own, a, panel, columns, out + column);
        else
            multiply_by_panel<T, tile_packs<T>>(own, a, panel, columns, out + column);
    }
}

template <typename T>
void stacked(void* context, ptrdiff_t start, ptrdiff_t end) {
    const StackedProducts& own = *static_cast<const StackedProducts*>(context);
    alignas(64) T panel[most_inner * panel_columns<T>];
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const T *a = static_cast<const T*>(own.a), *b = static_cast<const T*>(own.b);
        ptrdiff_t place = unit;
        for (int i = own.ndim - 1; i >= 0; --i) {
            const ptrdiff_t at = place % own.sizes[i];
            place /= own.sizes[i];
            a += at * own.a_steps[i];
            b += at * own.b_steps[i];
        }
        multiply(own, a, b, static_cast<T*>(own.out) + unit * own.rows * own.columns, panel);
    }
}

}  // namespace

extern const Products products_kernels = {{stacked<float>, stacked<double>}};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
