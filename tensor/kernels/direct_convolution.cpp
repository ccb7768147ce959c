#include "tensor/kernels/direct_convolution.h"

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/products.h"
#include "tensor/kernels/transposing.h"
#include "tensor/kernels/vectors.h"

namespace disposescope::kernels::DISPOSESCOPE_SIMD {
namespace {

// The largest tile whose sums fit into registers: `most_rows` rows by `tile_packs` packs of places.
template <typename T>
constexpr int tile_packs = Pack<T>::parts == 1 ? 2 : 1;
template <typename T>
constexpr int most_rows = Pack<T>::parts == 1 ? 9 : Pack<T>::parts == 2 ? 5 : 2;
template <typename T>
constexpr ptrdiff_t width = tile_packs<T>* Pack<T>::size;
template <typename T>
constexpr ptrdiff_t panel_width = panel_bytes / sizeof(T);

DISPOSESCOPE_INLINE ptrdiff_t ceil_of(ptrdiff_t n, ptrdiff_t by) { return n / by + (n % by > 0); }
DISPOSESCOPE_INLINE ptrdiff_t between(ptrdiff_t low, ptrdiff_t x, ptrdiff_t high) { return x < low ? low : x > high ? high : x; }

// Divide `rows` into tiles of nearly the same size.
DISPOSESCOPE_INLINE ptrdiff_t tiles_of(ptrdiff_t rows, ptrdiff_t most) { return ceil_of(rows, most); }
DISPOSESCOPE_INLINE ptrdiff_t start_of(ptrdiff_t tile, ptrdiff_t tiles, ptrdiff_t rows) { return rows * tile / tiles; }

template <int n>
struct Constant {
    static constexpr int value = n;
};

// Call `f` with `rows`, which is at most `most`, as a constant.
template <int most, typename F>
DISPOSESCOPE_INLINE void with_rows(ptrdiff_t rows, F f) {
    if constexpr (most > 0) {
        if (rows == most)
            f(Constant<most>());
        else
            with_rows<most - 1>(rows, f);
    }
}

// --- The copy

template <typename T>
inline void copy_row(T* to, const T* from, ptrdiff_t count) {
    using P = Pack<T>;
    ptrdiff_t i = 0;
    for (; i + P::size <= count; i += P::size) P::load(from + i).store(to + i);
    if (i == count) return;
    if (P::parts == 1)
        P::load_first(from + i, count - i, 0).store_first(to + i, count - i);
    else if (count >= P::size)
        P::load(from + count - P::size).store(to + count - P::size);
    else
        for (; i < count; ++i) to[i] = from[i];
}

template <typename T>
inline void fill(T* to, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; ++i) to[i] = T(0);
}

template <typename T>
void copy(void* given, ptrdiff_t start, ptrdiff_t end) {
    const CopyWork& work = *static_cast<const CopyWork*>(given);
    const PaddedCopy& own = work.padded;
    const CopiedAxis &depth = own.axes[0], &height = own.axes[1], &wide = own.axes[2];
    const ptrdiff_t phases = depth.phases * height.phases * wide.phases;
    const ptrdiff_t size = depth.size * height.size * wide.size;
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        // Each thread processes its own samples, as in `add_up`, so that they are in its core's cache.
        const ptrdiff_t sample = unit / own.channels, channel = unit % own.channels;
        const T* const x = static_cast<const T*>(work.x) + (sample * own.channels + channel) * size;
        T* const block = static_cast<T*>(own.copy) + channel * phases * own.block + sample * own.volume;
        for (ptrdiff_t phase = 0; phase < phases; ++phase) {
            const ptrdiff_t in_depth = phase / (height.phases * wide.phases) - depth.before;
            const ptrdiff_t in_height = phase / wide.phases % height.phases - height.before;
            const ptrdiff_t first = phase % wide.phases - wide.before;
            // The range of the row that is inside the input.
            const ptrdiff_t low = between(0, first < 0 ? ceil_of(-first, wide.stride) : 0, own.pitch);
            const ptrdiff_t inside = first < wide.size ? ceil_of(wide.size - first, wide.stride) : 0;
            const ptrdiff_t high = between(low, inside, own.pitch);
            T* to = block + phase * own.block;
            for (ptrdiff_t i = 0; i < depth.length; ++i) {
                const ptrdiff_t d = i * depth.stride + in_depth;
                for (ptrdiff_t j = 0; j < height.length; ++j, to += own.pitch) {
                    const ptrdiff_t h = j * height.stride + in_height;
                    if (d < 0 || d >= depth.size || h < 0 || h >= height.size) {
                        fill(to, own.pitch);
                        continue;
                    }
                    const T* const from = x + (d * height.size + h) * wide.size + first;
                    fill(to, low);
                    if (wide.stride == 1) {
                        copy_row(to + low, from + low, high - low);
                    } else {
                        DISPOSESCOPE_INDEPENDENT
                        for (ptrdiff_t k = low; k < high; ++k) to[k] = from[k * wide.stride];
                    }
                    fill(to + high, own.pitch - high);
                }
            }
            if (sample == own.samples - 1) fill(to, own.behind);
        }
    }
}

// --- Sums of products with the weight

template <typename T>
void pack_weights(void* given, ptrdiff_t start, ptrdiff_t end) {
    const WeightWork& own = *static_cast<const WeightWork*>(given);
    const ptrdiff_t tiles = tiles_of(own.rows, most_rows<T>);
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t tile = unit % tiles, first = start_of(tile, tiles, own.rows);
        const ptrdiff_t rows = start_of(tile + 1, tiles, own.rows) - first;
        const ptrdiff_t before = (unit / tiles * own.rows + first) * own.count;
        const T* const weight = static_cast<const T*>(own.weight) + before;
        T* to = static_cast<T*>(own.packed) + before;
        for (ptrdiff_t i = 0; i < own.count; ++i)
            for (ptrdiff_t row = 0; row < rows; ++row) *to++ = weight[row * own.count + i];
    }
}

// Compute the sums of some rows at the places from `x` on, and write them to `to`, with rows `width` apart.
template <typename T, int rows, int packs>
inline void tile(const T* x, const ptrdiff_t* offsets, ptrdiff_t count, const T* weights, const T* bias, T* to) {
    using P = Pack<T>;
    P sums[rows][packs];
    DISPOSESCOPE_UNROLLED
    for (int i = 0; i < rows; ++i)
        DISPOSESCOPE_UNROLLED
        for (P& sum : sums[i]) sum = P::of(bias == nullptr ? T(0) : bias[i]);
    for (ptrdiff_t k = 0; k < count; ++k, weights += rows) {
        P by[packs];
        DISPOSESCOPE_UNROLLED
        for (int j = 0; j < packs; ++j) by[j] = P::load(x + offsets[k] + j * P::size);
        DISPOSESCOPE_UNROLLED
        for (int i = 0; i < rows; ++i) {
            const P weight = P::of(weights[i]);
            DISPOSESCOPE_UNROLLED
            for (int j = 0; j < packs; ++j) sums[i][j] = fma(weight, by[j], sums[i][j]);
        }
    }
    DISPOSESCOPE_UNROLLED
    for (int i = 0; i < rows; ++i)
        DISPOSESCOPE_UNROLLED
        for (int j = 0; j < packs; ++j) sums[i][j].store(to + i * width<T> + j * P::size);
}

// Adjacent places of a tile that are kept: their position in the tile, and in the result.
struct Segment {
    ptrdiff_t start, count, to;
};

// Find the segments among `count` places of the copy, from `start` on. Return their number.
inline ptrdiff_t segments_of(const SumWork& work, ptrdiff_t start, ptrdiff_t count, Segment* found) {
    const PaddedCopy& own = work.padded;
    const ptrdiff_t depth = own.axes[0].count, height = own.axes[1].count, row = own.axes[2].count;
    ptrdiff_t segments = 0;
    for (ptrdiff_t at = 0; at < count;) {
        const ptrdiff_t place = start + at, in_sample = place % own.volume, in_plane = in_sample % own.plane;
        const ptrdiff_t d = in_sample / own.plane, h = in_plane / own.pitch, w = in_plane % own.pitch;
        const ptrdiff_t left = own.pitch - w < count - at ? own.pitch - w : count - at;
        const ptrdiff_t kept = w + left < row ? left : row - w;
        if (d < depth && h < height && kept > 0)
            found[segments++] = {at, kept, place / own.volume * work.groups * work.rows * work.channel_size +
                                               (d * height + h) * row + w};
        at += left;
    }
    return segments;
}

// Copy `count` sums from a buffer to the result. A read after the last sum stays inside the buffer.
template <typename T>
DISPOSESCOPE_INLINE void keep(const T* from, T* to, ptrdiff_t count) {
    using P = Pack<T>;
    if (P::parts > 1) return copy_row(to, from, count);
    for (; count >= P::size; count -= P::size, from += P::size, to += P::size) P::load(from).store(to);
    if (count > 0) P::load(from).store_first(to, count);
}

template <typename T>
void add_up(void* given, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    constexpr ptrdiff_t most_tiles = places_of_block / P::size;
    const SumWork& work = *static_cast<const SumWork*>(given);
    const PaddedCopy& own = work.padded;
    const ptrdiff_t depth = own.axes[0].count, height = own.axes[1].count;
    const ptrdiff_t tiles = tiles_of(work.rows, most_rows<T>);
    alignas(64) T sums[(most_rows<T> + 1) * width<T>];
    Segment segments[places_of_block];
    ptrdiff_t ends[most_tiles + 1];
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t run = unit / work.blocks, in_run = unit % work.blocks * places_of_block;
        const ptrdiff_t row = run * work.rows_of_run, plane = row / height;
        const ptrdiff_t first =
            plane / depth * own.volume + plane % depth * own.plane + row % height * own.pitch + in_run;
        const ptrdiff_t left = work.run_length - in_run, places = left < places_of_block ? left : places_of_block;
        ends[0] = 0;
        for (ptrdiff_t at = 0, i = 0; at < places; at += width<T>, ++i) {
            const ptrdiff_t count = places - at < width<T> ? places - at : width<T>;
            ends[i + 1] = ends[i] + segments_of(work, first + at, count, segments + ends[i]);
        }
        for (ptrdiff_t group = 0; group < work.groups; ++group) {
            const T* const x = static_cast<const T*>(own.copy) + group * work.group_step + first;
            for (ptrdiff_t i = 0; i < tiles; ++i) {
                const ptrdiff_t top = start_of(i, tiles, work.rows), rows = start_of(i + 1, tiles, work.rows) - top;
                const ptrdiff_t channel = group * work.rows + top;
                const T* const weights = static_cast<const T*>(work.packed) + channel * work.count;
                const T* const bias = work.bias == nullptr ? nullptr : static_cast<const T*>(work.bias) + channel;
                T* const out = static_cast<T*>(work.out) + channel * work.channel_size;
                for (ptrdiff_t at = 0, j = 0; at < places; at += width<T>, ++j) {
                    if (ends[j] == ends[j + 1]) continue;
                    const bool is_half = places - at <= P::size;
                    with_rows<most_rows<T>>(rows, [&](auto some) DISPOSESCOPE_INLINED {
                        if (is_half)
                            tile<T, some.value, 1>(x + at, work.offsets, work.count, weights, bias, sums);
                        else
                            tile<T, some.value, tile_packs<T>>(x + at, work.offsets, work.count, weights, bias, sums);
                    });
                    for (ptrdiff_t k = 0; k < rows; ++k)
                        for (ptrdiff_t s = ends[j]; s < ends[j + 1]; ++s)
                            keep(sums + k * width<T> + segments[s].start,
                                 out + k * work.channel_size + segments[s].to, segments[s].count);
                }
            }
        }
    }
}

// --- Sums of products with the gradient of the result

template <typename T>
void copy_to_panels(void* given, ptrdiff_t start, ptrdiff_t end) {
    const PanelWork& own = *static_cast<const PanelWork*>(given);
    // Read `at_once` elements of a channel before the next channel, while the output stays in the first-level
    // cache. Channels are often a power of 2 apart, and such cache lines evict each other.
    constexpr ptrdiff_t wide = panel_width<T>, at_once = 64;
    const ptrdiff_t panels = ceil_of(own.rows, wide), step = own.places_of_plane;
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t sample = unit % own.samples, panel = unit / own.samples % panels;
        const ptrdiff_t group = unit / own.samples / panels, row = panel * wide;
        const ptrdiff_t left = own.rows - row, rows = left < wide ? left : wide;
        const T* const from = static_cast<const T*>(own.y) + ((sample * own.groups + group) * own.rows + row) * step;
        T* const to = static_cast<T*>(own.panels) + unit * own.places * wide;
        const ptrdiff_t whole_places = own.places - own.places % 4, whole_rows = rows - rows % 4;
        for (ptrdiff_t block = 0; block < whole_places; block += at_once) {
            const ptrdiff_t last = block + at_once < whole_places ? block + at_once : whole_places;
            for (ptrdiff_t j = 0; j < whole_rows; j += 4)
                for (ptrdiff_t i = block; i < last; i += 4)
                    transpose_block(from + j * step + i, to + i * wide + j, step, wide);
        }
        for (ptrdiff_t i = 0; i < own.places; ++i)
            for (ptrdiff_t j = i < whole_places ? whole_rows : 0; j < wide; ++j)
                to[i * wide + j] = j < rows ? from[j * step + i] : T(0);
    }
}

// The places to sum before their sum is added to that of other places, for precision.
constexpr ptrdiff_t places_at_once = 512;

// Iterates over all rows of places.
struct Walk {
    const PaddedCopy& own;
    ptrdiff_t d = 0, h = 0, plane = 0, sample = 0;

    // The offset of the row.
    DISPOSESCOPE_INLINE ptrdiff_t start() const { return plane + h * own.pitch; }

    // Advance to the next row. Return whether it is in another sample.
    DISPOSESCOPE_INLINE bool next() {
        if (++h < own.axes[1].count) return false;
        h = 0;
        plane += own.plane;
        if (++d < own.axes[0].count) return false;
        d = 0;
        plane = sample += own.volume;
        return true;
    }
};

// Add the sums over all places to some rows of `out`, one for each offset, for several adjacent channels.
template <typename T, int rows, int packs>
void weight_tile(const PaddedCopy& own, const T* x, const ptrdiff_t* offsets, const T* panel, T* out,
                 ptrdiff_t out_row) {
    using P = Pack<T>;
    const ptrdiff_t count = own.axes[2].count, all = own.samples * own.axes[0].count * own.axes[1].count;
    const T* from[rows];
    DISPOSESCOPE_UNROLLED
    for (int i = 0; i < rows; ++i) from[i] = x + offsets[i];
    Walk walk{own};
    for (ptrdiff_t row = 0; row < all;) {
        P sums[rows][packs];
        DISPOSESCOPE_UNROLLED
        for (auto& some : sums)
            DISPOSESCOPE_UNROLLED
            for (P& sum : some) sum = P::of(0);
        for (ptrdiff_t places = 0; row < all && places < places_at_once; ++row, places += count) {
            const ptrdiff_t first = walk.start();
            for (ptrdiff_t w = first; w < first + count; ++w, panel += panel_width<T>) {
                P by[packs];
                DISPOSESCOPE_UNROLLED
                for (int j = 0; j < packs; ++j) by[j] = P::load(panel + j * P::size);
                DISPOSESCOPE_UNROLLED
                for (int i = 0; i < rows; ++i) {
                    const P value = P::of(from[i][w]);
                    DISPOSESCOPE_UNROLLED
                    for (int j = 0; j < packs; ++j) sums[i][j] = fma(value, by[j], sums[i][j]);
                }
            }
            walk.next();
        }
        DISPOSESCOPE_UNROLLED
        for (int i = 0; i < rows; ++i)
            DISPOSESCOPE_UNROLLED
            for (int j = 0; j < packs; ++j) {
                T* const to = out + i * out_row + j * P::size;
                (P::load(to) + sums[i][j]).store(to);
            }
    }
}

template <typename T>
void add_weights(void* given, ptrdiff_t start, ptrdiff_t end) {
    using P = Pack<T>;
    const WeightSumWork& work = *static_cast<const WeightSumWork*>(given);
    const PaddedCopy& own = work.padded;
    const ptrdiff_t panels = ceil_of(work.rows, panel_width<T>), tiles = tiles_of(work.count, most_rows<T>);
    const ptrdiff_t places = own.samples * own.axes[0].count * own.axes[1].count * own.axes[2].count;
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t tile = unit % tiles, panel = unit / tiles % panels, group = unit / tiles / panels;
        const ptrdiff_t first = start_of(tile, tiles, work.count), last = start_of(tile + 1, tiles, work.count);
        const T* const x = static_cast<const T*>(own.copy) + group * work.group_step;
        const T* const by = static_cast<const T*>(work.by) + (group * panels + panel) * places * panel_width<T>;
        const ptrdiff_t out_row = panels * panel_width<T>, left = work.rows - panel * panel_width<T>;
        T* const out = static_cast<T*>(work.out) + (group * work.count + first) * out_row + panel * panel_width<T>;
        with_rows<most_rows<T>>(last - first, [&](auto rows) DISPOSESCOPE_INLINED {
            for (ptrdiff_t j = 0; j < panel_width<T> && j < left; j += width<T>) {
                if (left - j <= P::size)
                    weight_tile<T, rows.value, 1>(own, x, work.offsets + first, by + j, out + j, out_row);
                else
                    weight_tile<T, rows.value, tile_packs<T>>(own, x, work.offsets + first, by + j, out + j, out_row);
            }
        });
    }
}

// Like `weight_tile`, for one channel with contiguous places.
template <typename T, int rows>
void channel_tile(const WeightSumWork& work, const T* x, const ptrdiff_t* offsets, const T* y, T* out,
                  ptrdiff_t out_row) {
    using P = Pack<T>;
    const PaddedCopy& own = work.padded;
    const ptrdiff_t count = own.axes[2].count, all = own.samples * own.axes[0].count * own.axes[1].count;
    const T* by = y;
    Walk walk{own};
    for (ptrdiff_t row = 0; row < all;) {
        P sums[rows];
        DISPOSESCOPE_UNROLLED
        for (P& sum : sums) sum = P::of(0);
        for (ptrdiff_t places = 0; row < all && places < places_at_once * P::size; ++row, places += count) {
            const T* const first = x + walk.start();
            ptrdiff_t w = 0;
            for (; w + P::size <= count; w += P::size) {
                const P some = P::load(by + w);
                DISPOSESCOPE_UNROLLED
                for (int i = 0; i < rows; ++i) sums[i] = fma(P::load(first + offsets[i] + w), some, sums[i]);
            }
            if (w < count) {
                // Do not multiply values after the row by zeros: they may be infinite or nan.
                const P some = P::load_first(by + w, count - w, 0);
                DISPOSESCOPE_UNROLLED
                for (int i = 0; i < rows; ++i)
                    sums[i] = fma(P::load_first(first + offsets[i] + w, count - w, 0), some, sums[i]);
            }
            by = walk.next() ? y += work.by_sample : by + count;
        }
        DISPOSESCOPE_UNROLLED
        for (int i = 0; i < rows; ++i) out[i * out_row] += sum(sums[i]);
    }
}

template <typename T>
void add_weights_of_few(void* given, ptrdiff_t start, ptrdiff_t end) {
    const WeightSumWork& work = *static_cast<const WeightSumWork*>(given);
    const ptrdiff_t tiles = tiles_of(work.count, most_rows<T>);
    for (ptrdiff_t unit = start; unit < end; ++unit) {
        const ptrdiff_t tile = unit % tiles, channel = unit / tiles, group = channel / work.rows;
        const ptrdiff_t first = start_of(tile, tiles, work.count), last = start_of(tile + 1, tiles, work.count);
        const T* const x = static_cast<const T*>(work.padded.copy) + group * work.group_step;
        const T* const y = static_cast<const T*>(work.by) + channel * work.by_channel;
        T* const out = static_cast<T*>(work.out) + (group * work.count + first) * work.rows + channel % work.rows;
        with_rows<most_rows<T>>(last - first, [&](auto rows) DISPOSESCOPE_INLINED {
            channel_tile<T, rows.value>(work, x, work.offsets + first, y, out, work.rows);
        });
    }
}

}  // namespace

extern const DirectConvolution direct_convolution_kernels = {
    {copy<float>, copy<double>},
    {pack_weights<float>, pack_weights<double>},
    {add_up<float>, add_up<double>},
    {copy_to_panels<float>, copy_to_panels<double>},
    {add_weights<float>, add_weights<double>},
    {add_weights_of_few<float>, add_weights_of_few<double>},
    {most_rows<float>, most_rows<double>},
};

}  // namespace disposescope::kernels::DISPOSESCOPE_SIMD
