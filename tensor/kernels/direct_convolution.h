// Direct convolution: sums over a padded copy of the input, for each instruction set (simd.h).
//
// A "place" is one position of the kernel on the input, for one element of the output.
//
// The copy has three spatial dimensions. Along each dimension it is split into phases: entry i of phase p is
// element i * stride + p of a padded row. So neighbouring places are adjacent in the copy, for any stride.
// The element that a place reads for one element of the kernel and one channel has the same offset for all
// places. The places of a row, a plane or all planes (`plan`) are processed as one contiguous range of the
// copy. The sums in the gaps between rows are dropped, and the other sums need no special case.

#pragma once

#include <cstddef>

#include "tensor/kernels/simd.h"

namespace disposescope::kernels {

// One spatial dimension: entry i of phase p is element i * stride + p - before of the input, which has `size`
// elements and zeros around them. The copy has the first `phases` of these `stride` phases, because the
// kernel does not read the others. Each has `length` entries. There are `count` places.
struct CopiedAxis {
    std::ptrdiff_t size, stride, phases, before, length, count;
};

// `copy` has shape (channels, phases along each axis, samples, length along each axis). Rows are `pitch`
// elements apart, planes `plane`, samples `volume` and phases `block`. The next row may begin in the zeros at
// the end of a row. So `behind` zeros follow the last row, and `block` is samples * volume + behind.
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

// The weight of shape (groups, rows, count), in the order in which `add_up` reads it: for each group, tiles
// of some rows; in a tile, first the values for the first offset, then for the second, and so on.
struct WeightWork {
    std::ptrdiff_t rows, count;
    const void* weight;
    void* packed;
};

struct SumWork {
    PaddedCopy padded;
    std::ptrdiff_t groups, rows, count, group_step;  // the distance between groups in the copy
    const std::ptrdiff_t* offsets;                   // `count` of them
    const void* packed;
    const void* bias;  // groups * rows, or null
    // (samples, groups * rows, places), C-contiguous. A channel may have more places than the copy.
    void* out;
    std::ptrdiff_t channel_size;
    std::ptrdiff_t runs, rows_of_run, run_length, blocks;  // filled in by `plan`
};

// The number of places that a thread processes at a time.
constexpr std::ptrdiff_t places_of_block = 256;

// Choose the contiguous range to process: a row if rows fill the registers well, else a plane, or all planes
// if they are tiny.
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

// The gradient of the output, as panels for the gradient of the weight: (groups, panels, samples, places,
// columns of a panel), with the width of products.h.
struct PanelWork {
    std::ptrdiff_t samples, groups, rows, places, places_of_plane;
    const void* y;  // (samples, groups * rows, places_of_plane), of which the first `places` are read
    void* panels;
};

struct WeightSumWork {
    PaddedCopy padded;
    std::ptrdiff_t groups, rows, count, group_step;
    const std::ptrdiff_t* offsets;
    // The gradient of the output as panels. For few rows: the gradient itself, (samples, groups * rows,
    // places), with the strides `by_sample` and `by_channel`.
    const void* by;
    std::ptrdiff_t by_sample, by_channel;
    // The sums are added to it: (groups, count, rows), with rows rounded up to whole panels if there are
    // panels.
    void* out;
};

struct DirectConvolution {
    using Kernel = void (*)(void* work, std::ptrdiff_t start, std::ptrdiff_t end);
    // For floats and doubles.
    Kernel copy[2];          // a unit is one channel of one sample
    Kernel pack_weights[2];  // a tile
    Kernel add_up[2];        // a block of places
    Kernel copy_to_panels[2];  // a sample of a panel
    Kernel add_weights[2];   // a tile of a panel
    Kernel add_weights_of_few[2];  // a tile of one row
    std::ptrdiff_t most_rows[2];  // of a tile
};

DISPOSESCOPE_KERNELS(DirectConvolution, direct_convolution)

}  // namespace disposescope::kernels
