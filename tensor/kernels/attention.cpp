// softmax(scale * Q K^T + mask) V and its gradients, block by block (Dao et al. 2022, FlashAttention).
//
// For a block of queries, forward processes one block of keys after another. When a larger score appears, it
// rescales the sums of the earlier blocks. It saves only the logsumexp of each query, from which backward
// recomputes the softmax of each block. A block has 64 x 64 values, which fit into the first-level cache.

#include "tensor/kernels/attention.h"

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/simd_math.h"
#include "tensor/kernels/transposing.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

constexpr ptrdiff_t most_queries = attention_queries, most_keys = attention_keys;

// The rows and packs of a product that registers hold at once.
#if defined(__AVX512F__)
constexpr int tile_rows = 6, tile_packs = 4;
#elif defined(__AVX2__) || defined(__aarch64__)
constexpr int tile_rows = 6, tile_packs = 1;
#else
constexpr int tile_rows = 3, tile_packs = 1;
#endif

template <typename T>
DISPOSESCOPE_INLINE Pack<T> exp(Pack<T> a) {
    return map(a, [](auto x) DISPOSESCOPE_INLINED { return exp(x); });
}

// --- Products of matrices

// A matrix with element (i, j) at i * row + j * column.
template <typename T>
struct Strided {
    const T* data;
    ptrdiff_t row, column;
};

// A matrix: the elements of a row are contiguous, and the rows are `apart` elements apart.
template <typename T>
struct Rows {
    T* data;
    ptrdiff_t apart;
    DISPOSESCOPE_INLINE T* operator[](ptrdiff_t i) const { return data + i * apart; }
};

// c += a b, or c = a b, for a tile of `rows` rows and `packs` packs. Unless `is_whole`, the last pack of a
// row has `last` elements.
template <bool adds, int rows, int packs, bool is_whole, typename T>
inline void tile(Strided<T> a, Rows<const T> b, Rows<T> c, ptrdiff_t inner, ptrdiff_t last) {
    using P = Pack<T>;
    constexpr int size = P::size;
    P sums[rows][packs];
    DISPOSESCOPE_UNROLLED
    for (auto& some : sums)
        DISPOSESCOPE_UNROLLED
        for (P& sum : some) sum = P::of(0);
    for (ptrdiff_t k = 0; k < inner; ++k) {
        P line[packs];
        DISPOSESCOPE_UNROLLED
        for (int j = 0; j < packs; ++j)
            line[j] = is_whole || j < packs - 1 ? P::load(b[k] + j * size) : P::load_first(b[k] + j * size, last, 0);
        DISPOSESCOPE_UNROLLED
        for (int i = 0; i < rows; ++i) {
            const P factor = P::of(a.data[i * a.row + k * a.column]);
            DISPOSESCOPE_UNROLLED
            for (int j = 0; j < packs; ++j) sums[i][j] = fma(factor, line[j], sums[i][j]);
        }
    }
    DISPOSESCOPE_UNROLLED
    for (int i = 0; i < rows; ++i)
        DISPOSESCOPE_UNROLLED
        for (int j = 0; j < packs; ++j) {
            T* const to = c[i] + j * size;
            if (is_whole || j < packs - 1)
                (adds ? P::load(to) + sums[i][j] : sums[i][j]).store(to);
            else
                (adds ? P::load_first(to, last, 0) + sums[i][j] : sums[i][j]).store_first(to, last);
        }
}

template <bool adds, int packs, bool is_whole, typename T>
inline void strip(Strided<T> a, Rows<const T> b, Rows<T> c, ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t last) {
    ptrdiff_t i = 0;
    for (; i + tile_rows <= rows; i += tile_rows)
        tile<adds, tile_rows, packs, is_whole, T>(
            {a.data + i * a.row, a.row, a.column}, b, {c[i], c.apart}, inner, last);
    // Of a block of 64 rows, the last 4 form one tile.
    if (tile_rows > 4 && i + 4 <= rows) {
        tile<adds, 4, packs, is_whole, T>({a.data + i * a.row, a.row, a.column}, b, {c[i], c.apart}, inner, last);
        i += 4;
    }
    for (; i + 2 <= rows; i += 2)
        tile<adds, 2, packs, is_whole, T>({a.data + i * a.row, a.row, a.column}, b, {c[i], c.apart}, inner, last);
    if (i < rows)
        tile<adds, 1, packs, is_whole, T>({a.data + i * a.row, a.row, a.column}, b, {c[i], c.apart}, inner, last);
}

template <bool adds, typename T>
void multiply(
    Strided<T> a, Rows<const T> b, Rows<T> c, ptrdiff_t rows, ptrdiff_t inner, ptrdiff_t columns
) {
    constexpr ptrdiff_t size = Pack<T>::size;
    ptrdiff_t j = 0;
    const auto from = [&](ptrdiff_t at) DISPOSESCOPE_INLINED { return Rows<const T>{b.data + at, b.apart}; };
    const auto to = [&](ptrdiff_t at) DISPOSESCOPE_INLINED { return Rows<T>{c.data + at, c.apart}; };
    if constexpr (tile_packs > 1)
        for (; j + tile_packs * size <= columns; j += tile_packs * size)
            strip<adds, tile_packs, true>(a, from(j), to(j), rows, inner, size);
    for (; j + size <= columns; j += size) strip<adds, 1, true>(a, from(j), to(j), rows, inner, size);
    if (j < columns) strip<adds, 1, false>(a, from(j), to(j), rows, inner, columns - j);
}

// to[j][i] = from[i][j], for `rows` rows of `from`. Rows of `to` have `most_keys` elements.
template <typename T>
void transpose(Rows<const T> from, ptrdiff_t rows, ptrdiff_t columns, T* to) {
    constexpr ptrdiff_t side = 4;
    for (ptrdiff_t i = 0; i < rows; i += side)
        for (ptrdiff_t j = 0; j < columns; j += side)
            if (i + side <= rows && j + side <= columns) {
                transpose_block(from[i] + j, to + j * most_keys + i, from.apart, most_keys);
            } else {
                for (ptrdiff_t k = i; k < i + side && k < rows; ++k)
                    for (ptrdiff_t l = j; l < j + side && l < columns; ++l) to[l * most_keys + k] = from[k][l];
            }
    // Clear the values after the last row. Products read them in whole packs, so they must not be signalling
    // nans.
    for (ptrdiff_t j = 0; j < columns; ++j)
        for (ptrdiff_t i = rows; i < most_keys; ++i) to[j * most_keys + i] = T(0);
}

// --- Dropout

// SplitMix64 (Steele, Lea and Flood, 2014).
DISPOSESCOPE_INLINE std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Uniform random numbers for the columns of one row. Each depends only on the seed, the row and the column,
// by the hash function "lowbias32" of C. Wellons.
struct RandomRow {
    std::uint32_t low, high;
    DISPOSESCOPE_INLINE RandomRow(std::uint64_t seed, std::uint64_t row) {
        const std::uint64_t key = mixed(mixed(seed) ^ row);
        low = static_cast<std::uint32_t>(key);
        high = static_cast<std::uint32_t>(key >> 32);
    }
    DISPOSESCOPE_INLINE std::uint32_t operator[](std::uint32_t column) const {
        std::uint32_t x = column * 0x9e3779b1u + low;
        x ^= x >> 16;
        x *= 0x7feb352du;
        x = (x ^ (x >> 15)) + high;
        x *= 0x846ca68bu;
        return x ^ (x >> 16);
    }
};

void kept(void* context, ptrdiff_t start, ptrdiff_t end) {
    const KeptWork& work = *static_cast<KeptWork*>(context);
    for (ptrdiff_t row = start; row < end; ++row) {
        const RandomRow random(work.seed, static_cast<std::uint64_t>(row));
        for (ptrdiff_t j = 0; j < work.keys; ++j)
            work.kept[row * work.keys + j] = random[static_cast<std::uint32_t>(j)] >= work.dropped_below;
    }
}

// --- One head

template <typename T>
DISPOSESCOPE_INLINE Rows<const T> rows_of(const void* data, Steps steps, ptrdiff_t batch, ptrdiff_t head, ptrdiff_t row) {
    return {static_cast<const T*>(data) + batch * steps.batch + head * steps.head + row * steps.row, steps.row};
}

template <typename T>
DISPOSESCOPE_INLINE Rows<T> rows_of(void* data, Steps steps, ptrdiff_t batch, ptrdiff_t head, ptrdiff_t row) {
    return {static_cast<T*>(data) + batch * steps.batch + head * steps.head + row * steps.row, steps.row};
}

DISPOSESCOPE_INLINE ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

// A block of queries and keys of one head.
template <typename T>
struct Block {
    using P = Pack<T>;
    const AttentionWork& work;
    ptrdiff_t batch, head, first_query, queries, first_key, keys;

    // The number of keys that query `i` of the block attends to if there is no mask.
    DISPOSESCOPE_INLINE ptrdiff_t seen(ptrdiff_t i) const {
        if (!work.is_causal) return keys;
        const ptrdiff_t left = first_query + i + 1 - first_key;
        return left < 0 ? 0 : smaller(left, keys);
    }

    DISPOSESCOPE_INLINE ptrdiff_t row(ptrdiff_t i) const {
        return (batch * work.key_heads * work.group + head) * work.queries + first_query + i;
    }

    // Scale and mask the scores of query `i`. Masked scores, and those after the last key, become -infinity.
    void finish_scores(T* scores, ptrdiff_t i) const {
        const ptrdiff_t count = seen(i);
        const P scale = P::of(static_cast<T>(work.scale));
        const ptrdiff_t at = batch * work.mask_steps.batch + head * work.mask_steps.head
            + (first_query + i) * work.mask_steps.row + first_key;
        if (work.booleans != nullptr) {
            const std::uint8_t* const mask = work.booleans + at;
            const T factor = static_cast<T>(work.scale), hidden = -infinity<T>();
            DISPOSESCOPE_INDEPENDENT
            for (ptrdiff_t j = 0; j < count; ++j) scores[j] = mask[j] != 0 ? scores[j] * factor : hidden;
        } else if (work.numbers != nullptr) {
            const T* const mask = static_cast<const T*>(work.numbers) + at;
            const T factor = static_cast<T>(work.scale);
            DISPOSESCOPE_INDEPENDENT
            for (ptrdiff_t j = 0; j < count; ++j) scores[j] = scores[j] * factor + mask[j];
        } else {
            for (ptrdiff_t j = 0; j < count; j += P::size) (P::load(scores + j) * scale).store(scores + j);
        }
        if (count < most_keys) {
            const ptrdiff_t whole = count - count % P::size;
            if (whole < count) P::load_first(scores + whole, count - whole, -infinity<T>()).store(scores + whole);
            for (ptrdiff_t j = whole < count ? whole + P::size : whole; j < most_keys; j += P::size)
                P::of(-infinity<T>()).store(scores + j);
        }
    }

    // Write the dropout factor for each key of query `i`: 0, or the scale of kept values.
    DISPOSESCOPE_INLINE void fill_factors(T* factors, ptrdiff_t i) const {
        const RandomRow random(work.seed, static_cast<std::uint64_t>(row(i)));
        const T scale = static_cast<T>(work.kept_scale);
        const std::uint32_t first = static_cast<std::uint32_t>(first_key), below = work.dropped_below;
        DISPOSESCOPE_INDEPENDENT
        for (std::uint32_t j = 0; j < static_cast<std::uint32_t>(most_keys); ++j)
            factors[j] = random[first + j] >= below ? scale : T(0);
    }
};

// Call f(j) for each pack of a row of a block.
template <typename T, typename Function>
DISPOSESCOPE_INLINE void each_pack_of_keys(Function f) {
    for (ptrdiff_t j = 0; j < most_keys; j += Pack<T>::size) f(j);
}

// Continue the softmax of one row with one more block. `top` and `total` are the maximum and sum over all
// keys so far. Return the factor that rescales results computed with the former `top`.
template <typename T>
DISPOSESCOPE_INLINE T update_softmax(T* scores, T& top, T& total) {
    using P = Pack<T>;
    P tops = P::of(top);
    each_pack_of_keys<T>([&](ptrdiff_t j) DISPOSESCOPE_INLINED { tops = larger(tops, P::load(scores + j)); });
    const T now = largest(tops), start = now - now == T(0) ? now : T(0);
    const P from = P::of(start);
    P sums = P::of(0);
    each_pack_of_keys<T>([&](ptrdiff_t j) DISPOSESCOPE_INLINED {
        const P e = exp(P::load(scores + j) - from);
        e.store(scores + j);
        sums = sums + e;
    });
    // Usually the maximum does not change.
    const T factor = top == start ? T(1) : exp(top - start);
    total = total * factor + sum(sums);
    top = now;
    return factor;
}

template <typename T>
void forward(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    const AttentionWork& work = *static_cast<AttentionWork*>(context);
    const ptrdiff_t width = work.value_features, heads = work.key_heads * work.group;
    const ptrdiff_t blocks = (work.queries + most_queries - 1) / most_queries;
    T* const transposed = static_cast<T*>(work.scratch) + start / work.grain * work.scratch_stride;
    T* const scores = transposed + most_keys * work.features;
    T* const mixed_values = scores + most_queries * most_keys;
    T* const tops = mixed_values + most_queries * width;
    T *const sums = tops + most_queries, *const factors = sums + most_queries;
    const Rows<T> mixture{mixed_values, width};
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t batch = unit / blocks / heads, head = unit / blocks % heads;
        Block<T> block{work, batch, head, unit % blocks * most_queries, 0, 0, 0};
        block.queries = smaller(work.queries - block.first_query, most_queries);
        const auto query = rows_of<T>(work.query, work.query_steps, batch, head, block.first_query);
        const ptrdiff_t seen =
            work.is_causal ? smaller(block.first_query + block.queries, work.keys) : work.keys;
        for (ptrdiff_t i = 0; i < block.queries; ++i) {
            tops[i] = -infinity<T>();
            sums[i] = T(0);
        }
        for (ptrdiff_t i = 0; i < block.queries * width; ++i) mixed_values[i] = T(0);
        for (block.first_key = 0; block.first_key < seen; block.first_key += most_keys) {
            block.keys = smaller(work.keys - block.first_key, most_keys);
            transpose<T>(
                rows_of<T>(work.key, work.key_steps, batch, head / work.group, block.first_key), block.keys,
                work.features, transposed);
            multiply<false, T>(
                {query.data, query.apart, 1}, {transposed, most_keys}, {scores, most_keys}, block.queries, work.features,
                most_keys);
            for (ptrdiff_t i = 0; i < block.queries; ++i) {
                T* const row = scores + i * most_keys;
                block.finish_scores(row, i);
                const T factor = update_softmax(row, tops[i], sums[i]);
                if (work.drops) {
                    block.fill_factors(factors, i);
                    each_pack_of_keys<T>([&](ptrdiff_t j) DISPOSESCOPE_INLINED {
                        (P::load(row + j) * P::load(factors + j)).store(row + j);
                    });
                }
                if (factor != T(1) && block.first_key > 0)
                    for (ptrdiff_t j = 0; j < width; ++j) mixture[i][j] *= factor;
            }
            multiply<true, T>(
                {scores, most_keys, 1}, rows_of<T>(work.value, work.value_steps, batch, head / work.group, block.first_key),
                mixture, block.queries, block.keys, width);
        }
        const auto out = rows_of<T>(work.out, work.out_steps, batch, head, block.first_query);
        for (ptrdiff_t i = 0; i < block.queries; ++i) {
            const T share = sums[i] == T(0) ? T(0) : T(1) / sums[i];
            for (ptrdiff_t j = 0; j < width; ++j) out[i][j] = mixture[i][j] * share;
            static_cast<T*>(work.logsumexp)[block.row(i)] = sums[i] == T(0) ? T(0) : tops[i] + log(sums[i]);
        }
    }
}

// Replace `weights`, the products of a query and the keys, by its softmax with dropout; and `slopes`, the
// gradient of that softmax, by the gradient of the products. `factors` is temporary memory for dropout.
template <typename T>
inline void slopes_of_row(
    const Block<T>& block, ptrdiff_t i, T* weights, T* slopes, T* factors, T logsumexp, T mean
) {
    using P = Pack<T>;
    block.finish_scores(weights, i);
    const P less = P::of(logsumexp), all = P::of(mean), scale = P::of(static_cast<T>(block.work.scale));
    if (!block.work.drops) {
        each_pack_of_keys<T>([&](ptrdiff_t j) DISPOSESCOPE_INLINED {
            const P p = exp(P::load(weights + j) - less);
            p.store(weights + j);
            (p * (P::load(slopes + j) - all) * scale).store(slopes + j);
        });
        return;
    }
    block.fill_factors(factors, i);
    each_pack_of_keys<T>([&](ptrdiff_t j) DISPOSESCOPE_INLINED {
        const P p = exp(P::load(weights + j) - less), factor = P::load(factors + j);
        (p * factor).store(weights + j);
        (p * (P::load(slopes + j) * factor - all) * scale).store(slopes + j);
    });
}

template <typename T>
void backward(void* context, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    const AttentionWork& work = *static_cast<AttentionWork*>(context);
    const ptrdiff_t width = work.value_features;
    T* const transposed_key = static_cast<T*>(work.scratch) + start / work.grain * work.scratch_stride;
    T* const transposed_value = transposed_key + most_keys * work.features;
    T* const weights = transposed_value + most_keys * width;
    T* const slopes = weights + most_queries * most_keys;
    T* const factors = slopes + most_queries * most_keys;
    T* const means = factors + most_keys;
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t batch = unit / work.key_heads, key_head = unit % work.key_heads;
        for (ptrdiff_t g = 0; g < work.group; ++g) {
            const ptrdiff_t head = key_head * work.group + g;
            const auto out = rows_of<T>(static_cast<const void*>(work.out), work.out_steps, batch, head, 0);
            const auto gradient = rows_of<T>(work.gradient, work.gradient_steps, batch, head, 0);
            for (ptrdiff_t i = 0; i < work.queries; ++i) {
                P sums = P::of(0);
                for (ptrdiff_t j = 0; j < width; j += P::size)
                    sums = fma(
                        P::load_up_to(out[i] + j, width - j), P::load_up_to(gradient[i] + j, width - j), sums);
                means[g * work.queries + i] = sum(sums);
            }
        }
        for (ptrdiff_t first_key = 0; first_key < work.keys; first_key += most_keys) {
            const ptrdiff_t keys = smaller(work.keys - first_key, most_keys);
            const auto key = rows_of<T>(work.key, work.key_steps, batch, key_head, first_key);
            transpose<T>(key, keys, work.features, transposed_key);
            transpose<T>(
                rows_of<T>(work.value, work.value_steps, batch, key_head, first_key), keys, width, transposed_value);
            const ptrdiff_t first = work.is_causal ? first_key - first_key % most_queries : 0;
            for (ptrdiff_t g = 0; g < work.group; ++g) {
                const ptrdiff_t head = key_head * work.group + g;
                for (ptrdiff_t q = first; q < work.queries; q += most_queries) {
                    const Block<T> block{
                        work, batch, head, q, smaller(work.queries - q, most_queries), first_key, keys};
                    const auto query = rows_of<T>(work.query, work.query_steps, batch, head, q);
                    const auto gradient = rows_of<T>(work.gradient, work.gradient_steps, batch, head, q);
                    multiply<false, T>(
                        {query.data, query.apart, 1}, {transposed_key, most_keys}, {weights, most_keys}, block.queries,
                        work.features, most_keys);
                    multiply<false, T>(
                        {gradient.data, gradient.apart, 1}, {transposed_value, most_keys}, {slopes, most_keys},
                        block.queries, width, most_keys);
                    for (ptrdiff_t i = 0; i < block.queries; ++i)
                        slopes_of_row(
                            block, i, weights + i * most_keys, slopes + i * most_keys, factors,
                            static_cast<const T*>(work.logsumexp)[block.row(i)], means[g * work.queries + q + i]);
                    if (work.value_gradient != nullptr)
                        multiply<true, T>(
                            {weights, 1, most_keys}, gradient,
                            rows_of<T>(work.value_gradient, work.value_gradient_steps, batch, key_head, first_key),
                            keys, block.queries, width);
                    if (work.query_gradient != nullptr)
                        multiply<true, T>(
                            {slopes, most_keys, 1}, key,
                            rows_of<T>(work.query_gradient, work.query_gradient_steps, batch, head, q),
                            block.queries, keys, work.features);
                    if (work.key_gradient != nullptr)
                        multiply<true, T>(
                            {slopes, 1, most_keys}, query,
                            rows_of<T>(work.key_gradient, work.key_gradient_steps, batch, key_head, first_key), keys,
                            block.queries, work.features);
                }
            }
        }
    }
}

}  // namespace

extern const Attention attention_kernels = {
    {forward<float>, forward<double>},
    {backward<float>, backward<double>},
    kept,
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
