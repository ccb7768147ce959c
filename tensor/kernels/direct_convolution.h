// Direct convolution: sums over a copy of the input that has its padding, for each instruction set (simd.h).
//
// The copy has three dimensions of space. Entry i of its phase p is element i * stride + p of a padded row: so
// neighbours among the places at which the kernel is laid down are neighbours in the copy, whatever the stride,
// and each element of the kernel, of each channel, is multiplied by what lies at an offset of its own from the
// place. The places of a plane are gone through as one stretch of the copy, with what lies between the end of a
// row and the next one: these sums nobody keeps, but nothing is laid out or cut to size for the others.

#pragma once

#include <cstddef>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// Along one dimension of space: entry i of phase p is element i * stride + p - before of the input, which has
// `size` elements, and zeros around them. The copy has the first `phases` of `stride` phases, of `length` entries
// each, and the kernel `count` places.
struct CopiedAxis {
    std::ptrdiff_t size, stride, phases, before, length, count;
};

// `copy` has shape (channels, phases along each axis, samples, length along each axis). The zeros at the end of a
// row may be those before the next one: rows are `pitch` elements apart, planes `plane`, samples `volume`, phases
// `block`. That is samples * volume and the zeros at the end of the last row, `behind`.
struct PaddedCopy {
    CopiedAxis axes[3];
    std::ptrdiff_t pitch, plane, volume, block, behind;
    std::ptrdiff_t samples, channels;
    void* copy;
};

struct CopyWork {
    PaddedCopy padded;
    const void* x;  // (samples, channels, *sizes), in C order
};

// Weights, (groups, rows, count), as `add_up` reads them: of each group tiles of some rows, and of a tile first what
// belongs to the first offset, then to the second ...
struct WeightWork {
    std::ptrdiff_t rows, count;
    const void* weight;
    void* packed;
};

struct SumWork {
    PaddedCopy padded;
    std::ptrdiff_t groups, rows, count, group_step;  // from group to group of the copy
    const std::ptrdiff_t* offsets;                   // `count` of them
    const void* packed;
    const void* bias;  // groups * rows, or null
    // (samples, groups * rows, places), in C order; of a channel there may be more places than are in the copy.
    void* out;
    std::ptrdiff_t channel_size;
    std::ptrdiff_t runs, rows_of_run, run_length, blocks;  // filled in by `plan`
};

// A thread takes so many places at a time.
constexpr std::ptrdiff_t places_of_block = 256;

// Chooses what is gone through as one stretch: a row where rows fill their registers well, else a plane, or all
// planes where they are tiny.
inline void plan(SumWork& work) {
    const PaddedCopy& own = work.padded;
    const auto whole = [](std::ptrdiff_t n) { return (n + 15) / 16 * 16; };
    const std::ptrdiff_t depth = own.axes[0].count, height = own.axes[1].count, row = own.axes[2].count;
    const std::ptrdiff_t places = (height - 1) * own.pitch + row, planes = own.samples * depth;
    const std::ptrdiff_t all = (own.samples - 1) * own.volume + (depth - 1) * own.plane + places;
    if (whole(row) * height * 20 < whole(places) * 19) {
        work.rows_of_run = 1;
        work.runs = planes * height;
        work.run_length = row;
    } else if (whole(places) * planes <= whole(all)) {
        work.rows_of_run = height;
        work.runs = planes;
        work.run_length = places;
    } else {
        work.rows_of_run = planes * height;
        work.runs = 1;
        work.run_length = all;
    }
    work.blocks = (work.run_length + places_of_block - 1) / places_of_block;
}

// The other factor of the sums that are the gradient of the weight: (groups, panels, samples, places, columns of
// a panel), as wide as those of products.h.
struct PanelWork {
    std::ptrdiff_t samples, groups, rows, places, places_of_plane;
    const void* y;  // (samples, groups * rows, places_of_plane), of which `places` are read
    void* panels;
};

struct WeightSumWork {
    PaddedCopy padded;
    std::ptrdiff_t groups, rows, count, group_step;
    const std::ptrdiff_t* offsets;
    // Panels, or of few rows the gradient itself, (samples, groups * rows, places), and how far these lie apart.
    const void* by;
    std::ptrdiff_t by_sample, by_channel;
    void* out;  // (groups, count, rows), these up to whole panels where there are some; it is added to
};

struct DirectConvolution {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // Of floats, of doubles.
    Kernel copy[2];          // a unit is a sample of a channel
    Kernel pack_weights[2];  // a tile
    Kernel add_up[2];        // a block of places
    Kernel lay_out[2];       // a sample of a panel
    Kernel add_weights[2];   // a tile of a panel
    Kernel add_weights_of_few[2];  // a tile of a row
    std::ptrdiff_t most_rows[2];  // of a tile
};

DISPOSESCOPE_KERNELS(DirectConvolution, direct_convolution)

}  // namespace disposescope::kernels
