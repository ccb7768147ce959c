"""Kernels of layers: convolution, patches, pooling, attention and recurrent layers.

Arrays are float32 or float64. Results do not depend on the number of threads. Call the functions inside a
kernel context (`tensor.kernels.running`).
"""

cimport numpy as cnp
from cython cimport final
from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t

from tensor.kernels.products cimport panel_bytes, product
from tensor.kernels.running cimport Kernel, ceil_of, kind_of, new_array, parallel_for, run_units, simd_level

import numpy as np

from tensor.kernels.running import get_num_threads

cnp.import_array()


# --- Convolution --------------------------------------------------------------------------------------------
#
# Direct convolution on the thread pool: a padded copy of the input, and sums of products over it.
#
# Arrays are float32 or float64, C-contiguous. ``direct_convolution.h`` describes the layout of the copy. One
# thread computes a whole sum, in a fixed order, so results do not depend on the number of threads. Call the
# functions inside a kernel context.

cdef extern from "tensor/kernels/direct_convolution.h" namespace "disposescope::kernels" nogil:
    cdef struct CopiedAxis:
        Py_ssize_t size
        Py_ssize_t stride
        Py_ssize_t phases
        Py_ssize_t before
        Py_ssize_t length
        Py_ssize_t count
    cdef struct PaddedCopy:
        CopiedAxis axes[3]
        Py_ssize_t pitch
        Py_ssize_t plane
        Py_ssize_t volume
        Py_ssize_t block
        Py_ssize_t behind
        Py_ssize_t samples
        Py_ssize_t channels
        void* copy
    cdef struct CopyWork:
        PaddedCopy padded
        const void* x
    cdef struct WeightWork:
        Py_ssize_t rows
        Py_ssize_t count
        const void* weight
        void* packed
    cdef struct SumWork:
        PaddedCopy padded
        Py_ssize_t groups
        Py_ssize_t rows
        Py_ssize_t count
        Py_ssize_t group_step
        const Py_ssize_t* offsets
        const void* packed
        const void* bias
        void* out
        Py_ssize_t channel_size
        Py_ssize_t runs
        Py_ssize_t rows_of_run
        Py_ssize_t run_length
        Py_ssize_t blocks
    void plan(SumWork& work)
    cdef struct PanelWork:
        Py_ssize_t samples
        Py_ssize_t groups
        Py_ssize_t rows
        Py_ssize_t places
        Py_ssize_t places_of_plane
        const void* y
        void* panels
    cdef struct WeightSumWork:
        PaddedCopy padded
        Py_ssize_t groups
        Py_ssize_t rows
        Py_ssize_t count
        Py_ssize_t group_step
        const Py_ssize_t* offsets
        const void* by
        Py_ssize_t by_sample
        Py_ssize_t by_channel
        void* out
    cdef struct DirectConvolution:
        Kernel copy[2]
        Kernel pack_weights[2]
        Kernel add_up[2]
        Kernel copy_to_panels[2]
        Kernel add_weights[2]
        Kernel add_weights_of_few[2]
        Py_ssize_t most_rows[2]
    const Py_ssize_t places_of_block
    const DirectConvolution* direct_convolution_kernels_of(int level)

cdef const DirectConvolution* _direct = direct_convolution_kernels_of(simd_level)

cdef enum:
    # The elements that a piece of work copies, and the products that it computes: about 5 us.
    COPIED = 1 << 14
    MULTIPLIED = 1 << 17
    # Up to this many channels in a group, separate sums are faster than a panel padded with zeros.
    FEW = 6


@final
cdef class PaddedInput:
    """A padded copy of a piece of the input, set by `fill`: some samples, or some rows of one sample.

    `x` has shape ``(batch, channels, *sizes)``, and `outs` are the numbers of places of the kernel. The
    largest piece has `samples` samples and `rows` rows of places, along the first spatial dimension.
    """

    cdef PaddedCopy _layout
    cdef Py_ssize_t _groups, _itemsize
    cdef int _kind, _sliced
    # The padding before the first spatial dimension, and the most rows of a piece. Of the piece in the copy:
    # its first sample, and the number of places before it.
    cdef Py_ssize_t _before, _rows, _sample, _skipped
    cdef cnp.ndarray _x, _copy
    # The offset from a place for each element of the kernel, of each channel of a group.
    cdef cnp.ndarray _offsets
    # The gradient as panels, for the largest piece; None until it is needed.
    cdef cnp.ndarray _panels

    def __cinit__(
        self, cnp.ndarray x not None, geometry, tuple outs not None, Py_ssize_t samples, Py_ssize_t rows
    ):
        cdef int i, space = cnp.PyArray_NDIM(x) - 2
        cdef Py_ssize_t j, dilation
        cdef cnp.npy_intp size
        cdef CopiedAxis* axis
        cdef CopiedAxis* axes = self._layout.axes
        self._kind = kind_of(x)
        if self._kind < 0 or not 1 <= space <= 3:
            raise TypeError(
                "direct convolution takes C-contiguous float32 or float64 arrays with 1 to 3 space dimensions"
            )
        self._x = x
        self._itemsize = cnp.PyArray_ITEMSIZE(x)
        self._groups = geometry.groups
        for i in range(3):
            axes[i] = CopiedAxis(1, 1, 1, 0, 1, 1)
        for i in range(space):
            axis = &axes[3 - space + i]
            axis.size = cnp.PyArray_DIM(x, 2 + i)
            axis.stride, axis.before = geometry.stride[i], geometry.padding[i][0]
            dilation = geometry.dilation[i]
            for j in range(geometry.kernel[i]):
                axis.phases = max(axis.phases, j * dilation % axis.stride + 1)
                axis.length = j * dilation // axis.stride
            axis.count = rows if i == 0 else outs[i]
            axis.length += axis.count
        self._sliced = 3 - space
        self._before, self._rows = axes[self._sliced].before, rows
        # If pieces divide a row, a piece may end without zeros that the next row could share.
        self._layout.behind = _shared(axes[2]) if rows == outs[0] or space > 1 else 0
        self._layout.pitch = axes[2].length - self._layout.behind
        self._layout.plane = self._layout.pitch * axes[1].length
        self._layout.volume = self._layout.plane * axes[0].length
        self._layout.block = self._layout.volume * samples + self._layout.behind
        self._layout.channels = cnp.PyArray_DIM(x, 1)
        # Add memory for the last tile of places, which may extend beyond the end.
        size = self._layout.block * self._layout.channels * self._phases() + panel_bytes // self._itemsize
        self._copy = new_array(1, &size, cnp.PyArray_TYPE(x))
        self._layout.copy = cnp.PyArray_DATA(self._copy)
        self._offsets = self._new_offsets(geometry.kernel, geometry.dilation)

    cdef cnp.ndarray _new_offsets(self, tuple kernel, tuple dilation):
        cdef int i, space = 3 - self._sliced
        cdef Py_ssize_t[3] sizes = [1, 1, 1]
        cdef Py_ssize_t[3] apart = [1, 1, 1]
        cdef Py_ssize_t[3] entries = [self._layout.plane, self._layout.pitch, 1]
        cdef Py_ssize_t[3] at
        cdef cnp.npy_intp count = self._layout.channels // self._groups
        cdef Py_ssize_t unit, place, phase, entry
        cdef CopiedAxis* axis
        for i in range(space):
            sizes[self._sliced + i], apart[self._sliced + i] = kernel[i], dilation[i]
            count *= kernel[i]
        cdef cnp.ndarray found = new_array(1, &count, cnp.NPY_INTP)
        cdef Py_ssize_t* to = <Py_ssize_t*>cnp.PyArray_DATA(found)
        for unit in range(count):
            place = unit
            for i in range(2, -1, -1):
                at[i] = place % sizes[i] * apart[i]
                place //= sizes[i]
            # `place` is the channel now. Phases of the last axis are adjacent.
            phase, entry = place, 0
            for i in range(3):
                axis = &self._layout.axes[i]
                phase = phase * axis.phases + at[i] % axis.stride
                entry += at[i] // axis.stride * entries[i]
            to[unit] = phase * self._layout.block + entry
        return found

    cdef Py_ssize_t _phases(self) noexcept:
        return self._layout.axes[0].phases * self._layout.axes[1].phases * self._layout.axes[2].phases

    cdef Py_ssize_t _places(self) noexcept:
        return self._layout.axes[0].count * self._layout.axes[1].count * self._layout.axes[2].count

    def fill(self, Py_ssize_t sample, Py_ssize_t samples, Py_ssize_t top, Py_ssize_t rows):
        """Copy the input for these samples and these rows of places."""
        cdef CopyWork work
        cdef CopiedAxis* axis = &self._layout.axes[self._sliced]
        if rows < 1 or not 0 <= sample < sample + samples <= cnp.PyArray_DIM(self._x, 0):
            raise IndexError("samples are out of range")
        if samples * self._layout.volume + self._layout.behind > self._layout.block or rows > self._rows:
            raise ValueError("a piece must not be larger than the first one")
        axis.before = self._before - top * axis.stride
        axis.count = rows
        self._layout.samples = samples
        self._sample = sample
        self._skipped = top * self._places() // rows
        work.padded = self._layout
        work.x = (
            <char*>cnp.PyArray_DATA(self._x)
            + sample * self._layout.channels * _elements_of_channel(self._x) * self._itemsize
        )
        run_units(
            _direct.copy[self._kind], &work, samples * self._layout.channels,
            max(COPIED // (self._phases() * self._layout.volume), 1),
            samples * self._layout.channels * self._layout.volume * self._itemsize,
        )

    cdef int _check(self, cnp.ndarray other) except -1:
        if kind_of(other) != self._kind or cnp.PyArray_NDIM(other) < 3:
            raise TypeError("direct convolution takes C-contiguous arrays of one dtype")
        return 0

    def add_up(
        self, PackedWeight weight not None, cnp.ndarray bias, cnp.ndarray out not None
    ):
        """Write the sums of products of the weight and the patch at each place in the copy.

        `out` has shape ``(batch, channels, *places)``. `bias` has one value for each channel, or is None.
        """
        cdef SumWork work
        cdef Py_ssize_t one
        self._check(out)
        if weight._kind != self._kind or cnp.PyArray_SIZE(self._offsets) != weight._work.count:
            raise TypeError("the weight must have the input's dtype, and one element for each of a patch")
        work.padded = self._layout
        work.groups, work.rows, work.count = self._groups, weight._work.rows, weight._work.count
        work.group_step = self._layout.channels // work.groups * self._phases() * self._layout.block
        work.offsets = <const Py_ssize_t*>cnp.PyArray_DATA(self._offsets)
        work.packed = cnp.PyArray_DATA(weight._packed)
        work.bias = NULL
        if bias is not None:
            if kind_of(bias) != self._kind or cnp.PyArray_SIZE(bias) != work.groups * work.rows:
                raise TypeError("the bias must have the input's dtype, and one value for each channel")
            work.bias = cnp.PyArray_DATA(bias)
        work.channel_size = _elements_of_channel(out)
        if (
            cnp.PyArray_DIM(out, 0) != cnp.PyArray_DIM(self._x, 0)
            or cnp.PyArray_DIM(out, 1) != work.groups * work.rows
            or cnp.PyArray_SIZE(weight._packed) != work.groups * work.rows * work.count
            or self._skipped + self._places() > work.channel_size
        ):
            raise ValueError("the result is too small for these places")
        work.out = (
            <char*>cnp.PyArray_DATA(out)
            + (self._sample * work.groups * work.rows * work.channel_size + self._skipped) * self._itemsize
        )
        plan(work)
        one = min(work.run_length, places_of_block) * work.groups * work.rows * work.count
        run_units(
            _direct.add_up[self._kind], &work, work.runs * work.blocks, max(MULTIPLIED // max(one, 1), 1),
            self._layout.samples * work.groups * work.rows * work.channel_size * self._itemsize,
        )

    def add_weights(self, cnp.ndarray y not None, cnp.ndarray out not None):
        """Add to `out` the products of patches and `y`, summed over the places in the copy.

        `y` has shape ``(batch, channels, *places)``, and `out` ``(groups, elements of a patch, channels /
        groups)``, where the last size is rounded up by ``weight_channels``.
        """
        cdef WeightSumWork work
        cdef Py_ssize_t places = self._places(), tiles, units, one
        self._check(y)
        self._check(out)
        work.padded = self._layout
        work.groups, work.count = self._groups, cnp.PyArray_SIZE(self._offsets)
        work.rows = cnp.PyArray_DIM(y, 1) // work.groups
        work.group_step = self._layout.channels // work.groups * self._phases() * self._layout.block
        work.offsets = <const Py_ssize_t*>cnp.PyArray_DATA(self._offsets)
        work.out = cnp.PyArray_DATA(out)
        work.by_channel = _elements_of_channel(y)
        work.by_sample = work.by_channel * cnp.PyArray_DIM(y, 1)
        work.by = (
            <char*>cnp.PyArray_DATA(y) + (self._sample * work.by_sample + self._skipped) * self._itemsize
        )
        if (
            cnp.PyArray_DIM(y, 0) != cnp.PyArray_DIM(self._x, 0)
            or self._skipped + places > work.by_channel
            or cnp.PyArray_SIZE(out) != work.groups * work.count * weight_channels(work.rows, self._itemsize)
        ):
            raise ValueError("the shapes of gradient and result do not match")
        tiles = ceil_of(work.count, _direct.most_rows[self._kind])
        one = places * self._layout.samples * ceil_of(work.count, tiles)
        if work.rows <= FEW:
            run_units(
                _direct.add_weights_of_few[self._kind], &work, work.groups * work.rows * tiles,
                max(MULTIPLIED // one, 1), places * self._layout.samples * self._itemsize,
            )
            return
        self._copy_to_panels(&work)
        units = work.groups * ceil_of(work.rows, panel_bytes // self._itemsize) * tiles
        run_units(
            _direct.add_weights[self._kind], &work, units,
            max(MULTIPLIED // (one * (panel_bytes // self._itemsize)), 1),
            places * self._layout.samples * panel_bytes,
        )

    cdef int _copy_to_panels(self, WeightSumWork* sums) except -1:
        """Copy the gradient that `sums` reads to panels, and let `sums` read those."""
        cdef PanelWork work
        cdef Py_ssize_t width = panel_bytes // self._itemsize
        cdef Py_ssize_t units = sums.groups * ceil_of(sums.rows, width) * self._layout.samples
        cdef cnp.npy_intp size = units * self._places() * width
        if self._panels is None or cnp.PyArray_SIZE(self._panels) < size:
            self._panels = new_array(1, &size, cnp.PyArray_TYPE(self._x))
        work.samples, work.groups, work.rows = self._layout.samples, sums.groups, sums.rows
        work.places, work.places_of_plane = self._places(), sums.by_channel
        work.y = sums.by
        work.panels = cnp.PyArray_DATA(self._panels)
        sums.by = work.panels
        return run_units(
            _direct.copy_to_panels[self._kind], &work, units, max(COPIED // (work.places * width), 1),
            size * self._itemsize,
        )


cdef Py_ssize_t _elements_of_channel(cnp.ndarray a) noexcept:
    # Do not use strides: they have no meaning for a dimension of size 1.
    cdef Py_ssize_t found = 1
    cdef int i
    for i in range(2, cnp.PyArray_NDIM(a)):
        found *= cnp.PyArray_DIM(a, i)
    return found


cdef Py_ssize_t _shared(CopiedAxis axis) noexcept:
    """Return how many zeros at the end of a row can be shared with the beginning of the next row."""
    cdef Py_ssize_t zeros = -((axis.phases - 1 - axis.before) // axis.stride)
    cdef Py_ssize_t behind = axis.length - ceil_of(max(axis.size + axis.before, 0), axis.stride)
    return max(min(zeros, behind, axis.length - axis.count), 0)


@final
cdef class PackedWeight:
    """A weight, ``(channels, input channels / groups, *kernel)``, in the order of ``PaddedInput.add_up``."""

    cdef WeightWork _work
    cdef int _kind
    cdef cnp.ndarray _packed

    def __cinit__(self, cnp.ndarray weight not None, Py_ssize_t groups):
        cdef cnp.npy_intp size = cnp.PyArray_SIZE(weight)
        self._kind = kind_of(weight)
        if self._kind < 0 or size == 0 or cnp.PyArray_DIM(weight, 0) % groups:
            raise TypeError(
                "a weight must be float32 or float64, C-contiguous, not empty, and divisible into groups"
            )
        self._work.rows = cnp.PyArray_DIM(weight, 0) // groups
        self._work.count = size // cnp.PyArray_DIM(weight, 0)
        self._packed = new_array(1, &size, cnp.PyArray_TYPE(weight))
        self._work.weight = cnp.PyArray_DATA(weight)
        self._work.packed = cnp.PyArray_DATA(self._packed)
        run_units(
            _direct.pack_weights[self._kind], &self._work,
            groups * ceil_of(self._work.rows, _direct.most_rows[self._kind]),
            max(COPIED // (min(self._work.rows, _direct.most_rows[self._kind]) * self._work.count), 1),
            cnp.PyArray_NBYTES(weight),
        )
        self._work.weight = NULL  # the array may be freed now


cpdef Py_ssize_t weight_channels(Py_ssize_t channels, Py_ssize_t itemsize):
    """Return the number of channels of a weight's gradient: `channels`, rounded up for panels."""
    cdef Py_ssize_t width = panel_bytes // itemsize
    return channels if channels <= FEW else ceil_of(channels, width) * width


# --- Patches ------------------------------------------------------------------------------------------------
#
# Gather of patches as columns of a matrix, and scatter-add of such columns, on the thread pool.
#
# Arrays are float32 or float64, C-contiguous. Padding with zeros is implicit. Results do not depend on the
# number of threads. Call the functions inside a kernel context.

cdef extern from "tensor/kernels/patches.h" namespace "disposescope::kernels" nogil:
    cdef struct PatchAxis:
        Py_ssize_t size
        Py_ssize_t outs
        Py_ssize_t top
        Py_ssize_t kernel
        Py_ssize_t stride
        Py_ssize_t dilation
        Py_ssize_t before
    cdef struct PatchWork:
        PatchAxis axes[3]
        Py_ssize_t samples
        Py_ssize_t channels
        void* x
        void* columns
    cdef struct Patches:
        Kernel gather[2]
        Kernel scatter[2]
    const Patches* patches_kernels_of(int level)

cdef const Patches* _patches = patches_kernels_of(simd_level)

cdef enum:
    # The number of elements in a piece of work: about 5 us.
    PATCHED = 1 << 14


cdef int _describe(
    PatchWork* work, cnp.ndarray x, cnp.ndarray columns, geometry, Py_ssize_t top, outs
) except -1:
    """Fill in `work`. Return `kind_of` the arrays."""
    cdef int i, space = cnp.PyArray_NDIM(x) - 2, kind = kind_of(x)
    cdef PatchAxis* axis
    cdef Py_ssize_t height = 1, width = 1
    if kind < 0 or kind_of(columns) != kind or not 1 <= space <= 3:
        raise TypeError("patches take C-contiguous arrays of one dtype, float32 or float64")
    for i in range(3):
        work.axes[i] = PatchAxis(1, 1, 0, 1, 1, 1, 0)
    for i in range(space):
        axis = &work.axes[3 - space + i]
        axis.size = cnp.PyArray_DIM(x, 2 + i)
        axis.outs = outs[i]
        axis.kernel = geometry.kernel[i]
        axis.stride = geometry.stride[i]
        axis.dilation = geometry.dilation[i]
        axis.before = geometry.padding[i][0]
        height *= axis.kernel
        width *= axis.outs
    work.axes[3 - space].top = top
    work.samples = cnp.PyArray_DIM(x, 0)
    work.channels = cnp.PyArray_DIM(x, 1)
    if cnp.PyArray_SIZE(columns) != work.channels * height * work.samples * width:
        raise ValueError("columns is too small for these patches")
    work.x = cnp.PyArray_DATA(x)
    work.columns = cnp.PyArray_DATA(columns)
    return kind


def gather_patches(
    cnp.ndarray x not None, cnp.ndarray columns not None, geometry, Py_ssize_t top, outs
):
    """Write the patches of `x`, ``(samples, channels, *sizes)``, to `columns`.

    `columns` has shape ``(channels, *kernel, samples, *outs)``. Along the first spatial dimension, begin
    with patch number `top`.
    """
    cdef PatchWork work
    cdef int kind = _describe(&work, x, columns, geometry, top, outs)
    cdef Py_ssize_t units = work.channels
    cdef int i
    for i in range(3):
        units *= work.axes[i].kernel
    if cnp.PyArray_SIZE(columns):
        run_units(
            _patches.gather[kind], &work, units, max(PATCHED // (cnp.PyArray_SIZE(columns) // units), 1),
            cnp.PyArray_NBYTES(columns),
        )


def scatter_patches(
    cnp.ndarray x not None, cnp.ndarray columns not None, geometry, Py_ssize_t top, outs
):
    """Add `columns` to the elements of `x` from which ``gather_patches`` would copy them."""
    cdef PatchWork work
    cdef int kind = _describe(&work, x, columns, geometry, top, outs)
    if cnp.PyArray_SIZE(columns):
        run_units(
            _patches.scatter[kind], &work, work.channels,
            max(PATCHED // (cnp.PyArray_SIZE(columns) // work.channels), 1), cnp.PyArray_NBYTES(columns),
        )


# --- Pooling ------------------------------------------------------------------------------------------------
#
# Kernels of max pooling: the largest element of each window, gather and scatter-add.
#
# Arrays are float32 or float64, in C order, with shape ``(planes, depth, height, width)``. Places are int64
# indices into a flattened plane. One thread computes a whole plane, so results do not depend on the number of
# threads. Call the functions inside a kernel context (`tensor.kernels.running`).

cdef extern from "tensor/kernels/pooling.h" namespace "disposescope::kernels" nogil:
    cdef struct WindowAxis:
        Py_ssize_t size
        Py_ssize_t outs
        Py_ssize_t step
        Py_ssize_t low
        Py_ssize_t high
        Py_ssize_t stride
        Py_ssize_t kernel
        const int64_t* starts
        const int64_t* counts
    cdef struct LargestWork:
        WindowAxis axes[3]
        const void* x
        void* out
        int64_t* places
    cdef struct PlacesWork:
        Py_ssize_t count
        Py_ssize_t size
        const int64_t* places
        const void* x
        void* out
    cdef struct Pooling:
        Kernel largest[2]
        Kernel take[2]
        Kernel add[2]
    const Pooling* pooling_kernels_of(int level)

cdef const Pooling* _pooling = pooling_kernels_of(simd_level)

cdef enum:
    # The number of elements in a piece of work: about 5 us.
    POOLED = 1 << 12


cdef int _check(cnp.ndarray x) except -1:
    cdef int kind = kind_of(x)
    if kind < 0:
        raise TypeError("pooling takes C-contiguous arrays of float32 or float64")
    return kind


cdef int _check_places(cnp.ndarray places) except -1:
    if cnp.PyArray_TYPE(places) != cnp.NPY_INT64 or not cnp.PyArray_ISCARRAY_RO(places):
        raise TypeError("places must be a C-contiguous array of int64")
    return 0


cdef void _find_regular_windows(WindowAxis* axis) noexcept:
    """Set `low` and `high` to the range of windows with the size and stride of the middle one."""
    cdef Py_ssize_t middle = axis.outs // 2
    axis.low = axis.high = middle
    axis.stride = axis.kernel = 1
    if axis.outs < 2:
        return
    axis.kernel = axis.counts[middle]
    axis.stride = axis.starts[middle] - axis.starts[middle - 1]
    while axis.high < axis.outs and axis.counts[axis.high] == axis.kernel and (
        axis.starts[axis.high] - axis.starts[middle] == (axis.high - middle) * axis.stride
    ):
        axis.high += 1
    while axis.low > 0 and axis.counts[axis.low - 1] == axis.kernel and (
        axis.starts[middle] - axis.starts[axis.low - 1] == (middle - axis.low + 1) * axis.stride
    ):
        axis.low -= 1


def largest_of_windows(cnp.ndarray x not None, windows, bint with_places):
    """Return the maximum of each window of `x`, and its index in the plane; None without `with_places`.

    `windows` has ``(starts, counts, step)`` for each of the three dimensions of a plane. Window i has the
    ``counts[i]`` elements from ``starts[i]`` on, `step` apart. The caller guarantees that no window is empty
    or leaves the plane. This is not checked.
    """
    cdef LargestWork work
    cdef cnp.npy_intp shape[4]
    cdef cnp.ndarray out, places = None, starts, counts
    cdef int i, kind = _check(x)
    cdef Py_ssize_t each = 1
    shape[0] = cnp.PyArray_DIM(x, 0)
    for i in range(3):
        starts, counts, step = windows[i]
        work.axes[i].size = cnp.PyArray_DIM(x, i + 1)
        work.axes[i].outs = cnp.PyArray_SIZE(starts)
        work.axes[i].step = step
        work.axes[i].starts = <const int64_t*>cnp.PyArray_DATA(starts)
        work.axes[i].counts = <const int64_t*>cnp.PyArray_DATA(counts)
        shape[i + 1] = work.axes[i].outs
        each *= max(<Py_ssize_t>counts.sum(), 1)
    _find_regular_windows(&work.axes[2])
    if cnp.PyArray_SIZE(x) // max(shape[0], 1) >= 1 << 31:
        work.axes[2].high = work.axes[2].low  # 32 bits are not enough for indices in such planes
    out = new_array(4, shape, cnp.PyArray_TYPE(x))
    work.places = NULL
    if with_places:
        places = new_array(4, shape, cnp.NPY_INT64)
        work.places = <int64_t*>cnp.PyArray_DATA(places)
    work.x = cnp.PyArray_DATA(x)
    work.out = cnp.PyArray_DATA(out)
    if cnp.PyArray_SIZE(out):
        run_units(_pooling.largest[kind], &work, shape[0], max(POOLED // each, 1), cnp.PyArray_NBYTES(x))
    return out, places


def take_places(cnp.ndarray x not None, cnp.ndarray places not None):
    """Return the elements of each plane of `x`, ``(planes, *)``, at the indices `places`, ``(planes, *)``.

    The caller guarantees that indices are within a plane, and that no other code writes to them meanwhile.
    """
    cdef PlacesWork work
    cdef int kind = _check(x)
    cdef Py_ssize_t planes = cnp.PyArray_DIM(x, 0)
    cdef cnp.ndarray out = new_array(cnp.PyArray_NDIM(places), cnp.PyArray_DIMS(places), cnp.PyArray_TYPE(x))
    _check_places(places)
    if cnp.PyArray_SIZE(out):
        work.count = cnp.PyArray_SIZE(places) // planes
        work.size = cnp.PyArray_SIZE(x) // planes
        work.places = <const int64_t*>cnp.PyArray_DATA(places)
        work.x = cnp.PyArray_DATA(x)
        work.out = cnp.PyArray_DATA(out)
        run_units(
            _pooling.take[kind], &work, planes, max(POOLED // work.count, 1), cnp.PyArray_NBYTES(out)
        )
    return out


def add_at_places(cnp.ndarray x not None, cnp.ndarray places not None, sizes):
    """Return planes of `sizes` with each element of `x` added at its index. `places` has the shape of `x`.

    The caller guarantees that indices are within a plane, and that no other code writes to them meanwhile.
    """
    cdef PlacesWork work
    cdef cnp.npy_intp shape[4]
    cdef int i, kind = _check(x)
    cdef cnp.ndarray out
    _check_places(places)
    shape[0] = cnp.PyArray_DIM(x, 0)
    for i in range(3):
        shape[i + 1] = sizes[i]
    out = new_array(4, shape, cnp.PyArray_TYPE(x))
    if cnp.PyArray_SIZE(out):
        work.count = cnp.PyArray_SIZE(x) // shape[0]
        work.size = cnp.PyArray_SIZE(out) // shape[0]
        work.places = <const int64_t*>cnp.PyArray_DATA(places)
        work.x = cnp.PyArray_DATA(x)
        work.out = cnp.PyArray_DATA(out)
        run_units(_pooling.add[kind], &work, shape[0], max(POOLED // work.size, 1), cnp.PyArray_NBYTES(out))
    return out


# --- Attention ----------------------------------------------------------------------------------------------
#
# Attention of plain arrays, and its gradients, block by block: see `attention.cpp`.
#
# Queries have shape ``(batch, heads, queries, features)``, keys ``(batch, key heads, keys, features)``, and
# values ``(batch, key heads, keys, value features)``. Each head of keys is used by the same number of
# consecutive heads of queries. All have the same dtype, float32 or float64, and any strides. Call the
# functions inside a kernel context.

cdef extern from "tensor/kernels/attention.h" namespace "disposescope::kernels" nogil:
    cdef struct Steps:
        Py_ssize_t batch
        Py_ssize_t head
        Py_ssize_t row
    cdef struct AttentionWork:
        Py_ssize_t batch
        Py_ssize_t key_heads
        Py_ssize_t group
        Py_ssize_t queries
        Py_ssize_t keys
        Py_ssize_t features
        Py_ssize_t value_features
        const void* query
        const void* key
        const void* value
        Steps query_steps
        Steps key_steps
        Steps value_steps
        double scale
        const void* numbers
        const uint8_t* booleans
        Steps mask_steps
        bint is_causal
        bint drops
        uint64_t seed
        uint32_t dropped_below
        double kept_scale
        void* out
        Steps out_steps
        void* logsumexp
        const void* gradient
        Steps gradient_steps
        void* query_gradient
        void* key_gradient
        void* value_gradient
        Steps query_gradient_steps
        Steps key_gradient_steps
        Steps value_gradient_steps
        void* scratch
        Py_ssize_t scratch_stride
        Py_ssize_t grain
    cdef struct KeptWork:
        uint64_t seed
        uint32_t dropped_below
        Py_ssize_t keys
        uint8_t* kept
    cdef struct Attention:
        Kernel forward[2]
        Kernel backward[2]
        Kernel kept
    const Attention* attention_kernels_of(int level)
    Py_ssize_t attention_queries
    Py_ssize_t attention_forward_scratch(Py_ssize_t features, Py_ssize_t value_features)
    Py_ssize_t attention_backward_scratch(
        Py_ssize_t features, Py_ssize_t value_features, Py_ssize_t queries_of_group
    )

cdef const Attention* _attention = attention_kernels_of(simd_level)

# The number of pieces for each thread, to balance the load: in causal attention, a block of the first queries
# takes less time than one of the last.
cdef Py_ssize_t _PIECES = 4


cdef inline Steps _steps(cnp.ndarray a) noexcept:
    cdef Py_ssize_t size = cnp.PyArray_ITEMSIZE(a)
    return Steps(
        cnp.PyArray_STRIDE(a, 0) // size, cnp.PyArray_STRIDE(a, 1) // size, cnp.PyArray_STRIDE(a, 2) // size
    )


cdef cnp.ndarray _aligned(cnp.ndarray a):
    """Return `a`, or a copy, aligned and contiguous along its last dimension."""
    cdef Py_ssize_t size = cnp.PyArray_ITEMSIZE(a)
    cdef int i
    cdef bint fits = cnp.PyArray_ISALIGNED(a) and cnp.PyArray_ISNOTSWAPPED(a)
    fits = fits and (cnp.PyArray_DIM(a, 3) < 2 or cnp.PyArray_STRIDE(a, 3) == size)
    for i in range(3):
        fits = fits and cnp.PyArray_STRIDE(a, i) % size == 0
    return a if fits else np.array(a, order="C")


cdef cnp.ndarray _new(cnp.ndarray like, Py_ssize_t features):
    """Return a new array with the shape and memory order of `like`, but `features` features.

    If `like` is a view of the output of a linear layer, so that the heads of a row are adjacent, a reshape
    can join the heads of the result without a copy.
    """
    cdef cnp.npy_intp[4] shape
    cdef int[3] order = [0, 1, 2]
    cdef int i, j
    for i in range(1, 3):  # sort the axes by decreasing stride
        j = i
        while j and cnp.PyArray_STRIDE(like, order[j - 1]) < cnp.PyArray_STRIDE(like, order[j]):
            order[j - 1], order[j] = order[j], order[j - 1]
            j -= 1
    for i in range(3):
        shape[i] = cnp.PyArray_DIM(like, order[i])
    shape[3] = features
    found = new_array(4, shape, cnp.PyArray_TYPE(like))
    if order[0] == 0 and order[1] == 1:
        return found
    return found.transpose(np.argsort((order[0], order[1], order[2], 3)))


cdef cnp.ndarray _zeros_like(cnp.ndarray like):
    found = _new(like, cnp.PyArray_DIM(like, 3))
    found[...] = 0
    return found


cdef int _fill(
    AttentionWork* work, cnp.ndarray query, cnp.ndarray key, cnp.ndarray value, bint is_causal, double scale,
    uint64_t seed, double p,
) except -1:
    work.batch = cnp.PyArray_DIM(query, 0)
    work.key_heads = cnp.PyArray_DIM(key, 1)
    work.group = cnp.PyArray_DIM(query, 1) // max(work.key_heads, 1)
    work.queries = cnp.PyArray_DIM(query, 2)
    work.keys = cnp.PyArray_DIM(key, 2)
    work.features = cnp.PyArray_DIM(query, 3)
    work.value_features = cnp.PyArray_DIM(value, 3)
    work.query = cnp.PyArray_DATA(query)
    work.key = cnp.PyArray_DATA(key)
    work.value = cnp.PyArray_DATA(value)
    work.query_steps = _steps(query)
    work.key_steps = _steps(key)
    work.value_steps = _steps(value)
    work.scale = scale
    work.is_causal = is_causal
    work.drops = p > 0
    work.seed = seed
    work.dropped_below = _threshold_of(p)
    work.kept_scale = 1 / (1 - p) if p < 1 else 0
    return 0


cdef uint32_t _threshold_of(double p) noexcept:
    """Return the threshold below which a random 32-bit number lies with probability `p`, to within 2**-32."""
    return <uint32_t>min(p * 4294967296.0, 4294967295.0)


cdef cnp.ndarray _set_mask(AttentionWork* work, mask, cnp.ndarray query):
    """Set `mask`, which broadcasts to all scores, in `work`. Return an array that the caller must hold."""
    cdef cnp.ndarray held
    work.numbers = NULL
    work.booleans = NULL
    if mask is None:
        return None
    # Only the last dimension must be contiguous. Dimensions that are broadcast keep their stride of 0.
    if mask.shape[3] != work.keys:
        mask = np.broadcast_to(mask, (*mask.shape[:3], work.keys))
    mask = mask if mask.dtype == bool else mask.astype(query.dtype, copy=False)
    shape = (work.batch, work.key_heads * work.group, work.queries, work.keys)
    held = np.broadcast_to(_aligned(mask), shape)
    work.mask_steps = _steps(held)
    if cnp.PyArray_TYPE(held) == cnp.NPY_BOOL:
        work.booleans = <const uint8_t*>cnp.PyArray_DATA(held)
    else:
        work.numbers = cnp.PyArray_DATA(held)
    return held


cdef int _run_attention(
    Kernel kernel, AttentionWork* work, Py_ssize_t units, Py_ssize_t scratch, cnp.ndarray like
) except -1:
    """Run the kernel. Each piece gets `scratch` elements of temporary memory."""
    cdef Py_ssize_t pieces = min(units, _PIECES * <Py_ssize_t>get_num_threads())
    cdef cnp.npy_intp size
    cdef cnp.ndarray held
    work.grain = (units + pieces - 1) // pieces
    pieces = (units + work.grain - 1) // work.grain
    size = pieces * scratch
    held = new_array(1, &size, cnp.PyArray_TYPE(like))
    work.scratch = cnp.PyArray_DATA(held)
    work.scratch_stride = scratch
    with nogil:  # the caller keeps the arrays alive
        parallel_for(units, work.grain, kernel, work)
    return 0


def attention_forward(
    cnp.ndarray query not None, cnp.ndarray key not None, cnp.ndarray value not None, mask, bint is_causal,
    double scale, uint64_t seed, double p,
):
    """Return the attention output, and for backward the logsumexp of each query's scores.

    `mask` is None, or has four dimensions that broadcast. A boolean mask selects scores, a float mask is
    added to them. Dropout with probability `p` and `seed` applies to the softmax. A query that attends to no
    key returns 0.
    """
    cdef AttentionWork work
    cdef cnp.ndarray out, logsumexp
    cdef cnp.npy_intp[3] shape = [
        cnp.PyArray_DIM(query, 0), cnp.PyArray_DIM(query, 1), cnp.PyArray_DIM(query, 2)
    ]
    cdef Py_ssize_t units
    query, key, value = _aligned(query), _aligned(key), _aligned(value)
    _fill(&work, query, key, value, is_causal, scale, seed, p)
    _held = _set_mask(&work, mask, query)
    out = _new(query, work.value_features)
    logsumexp = new_array(3, shape, cnp.PyArray_TYPE(query))
    work.out = cnp.PyArray_DATA(out)
    work.out_steps = _steps(out)
    work.logsumexp = cnp.PyArray_DATA(logsumexp)
    units = shape[0] * shape[1] * ((work.queries + attention_queries - 1) // attention_queries)
    if units:
        _run_attention(
            _attention.forward[cnp.PyArray_TYPE(query) == cnp.NPY_DOUBLE], &work, units,
            attention_forward_scratch(work.features, work.value_features), query,
        )
    return out, logsumexp


def attention_backward(
    cnp.ndarray g not None, wanted, cnp.ndarray query not None, cnp.ndarray key not None,
    cnp.ndarray value not None, mask, bint is_causal, double scale, uint64_t seed, double p,
    cnp.ndarray out not None, cnp.ndarray logsumexp not None,
):
    """Return the gradients of query, key and value from that of `out`; None for those not `wanted`."""
    cdef AttentionWork work
    cdef cnp.ndarray d_query = None, d_key = None, d_value = None
    cdef Py_ssize_t units
    wants_query, wants_key, wants_value = wanted
    g, query, key, value = _aligned(g), _aligned(query), _aligned(key), _aligned(value)
    out = _aligned(out)
    _fill(&work, query, key, value, is_causal, scale, seed, p)
    _held = _set_mask(&work, mask, query)
    work.out = cnp.PyArray_DATA(out)
    work.out_steps = _steps(out)
    work.logsumexp = cnp.PyArray_DATA(logsumexp)
    work.gradient = cnp.PyArray_DATA(g)
    work.gradient_steps = _steps(g)
    work.query_gradient = work.key_gradient = work.value_gradient = NULL
    if wants_query:
        d_query = _zeros_like(query)
        work.query_gradient = cnp.PyArray_DATA(d_query)
        work.query_gradient_steps = _steps(d_query)
    if wants_key:
        d_key = _zeros_like(key)
        work.key_gradient = cnp.PyArray_DATA(d_key)
        work.key_gradient_steps = _steps(d_key)
    if wants_value:
        d_value = _zeros_like(value)
        work.value_gradient = cnp.PyArray_DATA(d_value)
        work.value_gradient_steps = _steps(d_value)
    units = work.batch * work.key_heads
    if units and work.queries and work.keys:
        _run_attention(
            _attention.backward[cnp.PyArray_TYPE(query) == cnp.NPY_DOUBLE], &work, units,
            attention_backward_scratch(work.features, work.value_features, work.group * work.queries), query,
        )
    return d_query, d_key, d_value


def attention_kept(shape, uint64_t seed, double p):
    """Return the values that dropout with `seed` keeps: bools of shape ``(batch, heads, queries, keys)``."""
    cdef KeptWork work
    cdef cnp.ndarray found = np.empty(shape, np.bool_)
    cdef Py_ssize_t rows = shape[0] * shape[1] * shape[2]
    work.seed = seed
    work.dropped_below = _threshold_of(p)
    work.keys = shape[3]
    work.kept = <uint8_t*>cnp.PyArray_DATA(found)
    _attention.kept(&work, 0, rows)
    return found


# --- Recurrent layers ---------------------------------------------------------------------------------------
#
# Recurrent layers of plain arrays, and their gradients: one product for all inputs, then step by step.
#
# A step is one product with the state, and one pass over the gates (`recurrent.cpp`). Sequences may have
# different lengths: ``sizes`` has the number of sequences at each step, which never increases, and elements
# are ordered by steps, ``(sum of sizes, features)``. Arrays have one dtype, float32 or float64, and are
# C-contiguous. Call the functions inside a kernel context.

cdef extern from "tensor/kernels/recurrent.h" namespace "disposescope::kernels" nogil:
    cdef struct RecurrentWork:
        Py_ssize_t hidden
        Py_ssize_t from_previous
        const void* previous
        const void* initial
        void* gates
        const void* recurrent
        const void* bias
        void* cell
        void* out
        const void* gradient
        Py_ssize_t gradient_stride
        const void* carried
        Py_ssize_t carried_stride
        void* state_gradient
        void* gates_gradient
        void* recurrent_gradient
    cdef struct Recurrent:
        Kernel forward[4][2]
        Kernel backward[4][2]
    const Recurrent* recurrent_kernels_of(int level)

cdef const Recurrent* _recurrent = recurrent_kernels_of(simd_level)

cdef enum:
    RNN_TANH
    RNN_RELU
    LSTM
    GRU

cdef dict _CELLS = {"tanh": RNN_TANH, "relu": RNN_RELU, "lstm": LSTM, "gru": GRU}
cdef Py_ssize_t[4] _BLOCKS = [1, 1, 4, 3]

# The number of state values in one task of a thread, which takes about 10 us.
cdef Py_ssize_t _VALUES_PER_TASK = 1 << 12


cdef int _run_recurrent(Kernel kernel, RecurrentWork* work, Py_ssize_t rows) except -1:
    cdef Py_ssize_t grain = max(_VALUES_PER_TASK // max(work.hidden, 1), 1)
    if rows <= grain:
        kernel(work, 0, rows)
        return 0
    with nogil:  # the caller keeps the arrays alive
        parallel_for(rows, grain, kernel, work)
    return 0


cdef inline void* _data(cnp.ndarray a) noexcept:
    return NULL if a is None else cnp.PyArray_DATA(a)


cdef inline cnp.ndarray _transposed(cnp.ndarray a):
    return cnp.PyArray_SwapAxes(a, 0, 1)


cdef inline void* _row(cnp.ndarray a, Py_ssize_t row) noexcept:
    return <char*>cnp.PyArray_DATA(a) + row * cnp.PyArray_STRIDE(a, 0)


cdef cnp.ndarray _matrix(Py_ssize_t rows, Py_ssize_t columns, cnp.ndarray like):
    cdef cnp.npy_intp[2] shape = [rows, columns]
    return new_array(2, shape, cnp.PyArray_TYPE(like))


cdef cnp.ndarray _zero_matrix(Py_ssize_t rows, Py_ssize_t columns, cnp.ndarray like):
    return np.zeros((rows, columns), like.dtype)


cdef cnp.ndarray _all_biases(int cell, Py_ssize_t hidden, cnp.ndarray like, b_ih, b_hh):
    """Return one row with the sum of the biases of input and state; see `RecurrentWork.bias`."""
    cdef Py_ssize_t blocks = _BLOCKS[cell]
    row = np.zeros((4 if cell == GRU else blocks) * hidden, like.dtype)
    if b_ih is not None:
        row[:blocks * hidden] = b_ih
    if b_hh is not None and cell == GRU:
        row[:2 * hidden] += b_hh[:2 * hidden]
        row[3 * hidden:] = b_hh[2 * hidden:]
    elif b_hh is not None:
        row += b_hh
    return row


cdef tuple _starts(tuple sizes, Py_ssize_t elements):
    """Return the index of the first element of each step. Raise a ValueError if `sizes` do not match.

    They may come from a tensor that has changed since it was checked.
    """
    cdef list starts = []
    cdef Py_ssize_t start = 0
    most = sizes[0]
    for size in sizes:
        if not 0 <= size <= most or size > elements - start:
            break
        starts.append(start)
        start += <Py_ssize_t>size
        most = size
    if len(starts) < len(sizes) or start < elements:
        raise ValueError(
            f"recurrent layer: batch_sizes must not increase, and must sum to {elements}, the number of "
            "elements of all sequences: the tensor batch_sizes of the packed sequence was changed"
        )
    return tuple(starts)


cdef int _check_shapes(
    Py_ssize_t blocks, Py_ssize_t count, cnp.ndarray x, h0, c0, w_ih, cnp.ndarray w_hh, w_hr, b_ih, b_hh
) except -1:
    """Raise a ValueError unless all shapes match `w_hh`: users can assign weights of any shape to a layer."""
    shape = (<object>w_hh).shape
    if len(shape) != 2 or shape[0] % blocks or (w_hr is None and shape[1] * blocks != shape[0]):
        raise ValueError(
            "recurrent layer: weight_hh must have shape "
            f"({'' if blocks == 1 else f'{blocks} * '}hidden_size, "
            f"{'hidden_size' if w_hr is None else 'proj_size'}), not {shape}"
        )
    rows, width, hidden = shape[0], shape[1], shape[0] // blocks
    for name, a, expected in (
        ("weight_ih", w_ih, (rows, cnp.PyArray_DIM(x, 1))),
        ("weight_hr", w_hr, (width, hidden)), ("bias_ih", b_ih, (rows,)), ("bias_hh", b_hh, (rows,)),
        ("h0", h0, (count, width)), ("c0", c0, (count, hidden)),
    ):
        if a is not None and a.shape != expected:
            raise ValueError(
                f"recurrent layer: with weight_hh of shape {shape}, {name} must have shape {expected}, not "
                f"{a.shape}"
            )
    return 0


cdef inline Py_ssize_t _continuing(sizes, Py_ssize_t t, Py_ssize_t before) except -1:
    """Return how many sequences of step `t` are also in step `before`, which may not exist."""
    return 0 if before < 0 or before >= len(sizes) else min(<Py_ssize_t>sizes[t], <Py_ssize_t>sizes[before])


cdef cnp.ndarray _state_before(
    cnp.ndarray out, cnp.ndarray initial, Py_ssize_t start, Py_ssize_t continuing, Py_ssize_t size,
    cnp.ndarray space,
):
    """Return the state before a step: rows of `out` from `start` on, and initial states of new sequences."""
    if continuing == size:
        return out[start:start + size]
    if continuing == 0:
        return initial[:size]
    space[:continuing] = out[start:start + continuing]
    space[continuing:size] = initial[continuing:size]
    return space[:size]


def recurrent_forward(
    cell, sizes, bint is_reversed, cnp.ndarray x not None, cnp.ndarray h0, cnp.ndarray c0,
    cnp.ndarray w_ih not None, cnp.ndarray w_hh not None, cnp.ndarray w_hr, b_ih, b_hh,
):
    """Return the output of all steps, the last states, the last cell states or None, and data for backward.

    Initial states may be None, for zeros. `w_hr` projects the state of an LSTM.
    """
    cdef RecurrentWork work
    cdef int code = _CELLS[cell]
    cdef Py_ssize_t steps = len(sizes), count = sizes[0], blocks = _BLOCKS[code]
    cdef Py_ssize_t hidden = cnp.PyArray_DIM(w_hh, 0) // blocks, width = cnp.PyArray_DIM(w_hh, 1)
    cdef Py_ssize_t step, t, before, size, start, continuing, rows = cnp.PyArray_DIM(x, 0)
    cdef tuple starts = _starts(sizes, rows)
    _check_shapes(blocks, count, x, h0, c0, w_ih, w_hh, w_hr, b_ih, b_hh)
    cdef cnp.ndarray gates = product(x, _transposed(w_ih))
    cdef cnp.ndarray by_state = _transposed(w_hh)
    cdef cnp.ndarray by_output = None if w_hr is None else _transposed(w_hr)
    cdef cnp.ndarray bias = _all_biases(code, hidden, x, b_ih, b_hh)
    cdef cnp.ndarray recurrent = _matrix(count, blocks * hidden, x), space = _matrix(count, width, x)
    cdef cnp.ndarray cells = None, states, out, last, last_cells = None, initial, state
    cdef Kernel kernel = _recurrent.forward[code][kind_of(x)]
    if h0 is None:
        h0 = _zero_matrix(count, width, x)
    if code == LSTM and c0 is None:
        c0 = _zero_matrix(count, hidden, x)
    initial = c0 if code == LSTM else h0
    if code == LSTM or code == GRU:
        cells = _matrix(rows, hidden, x)
        states = _matrix(rows, hidden, x)
    else:
        states = gates
    out = states if w_hr is None else _matrix(rows, width, x)
    # The array with the states that the gates use: for an LSTM, `cells`.
    cdef cnp.ndarray previous_states = cells if code == LSTM else out
    work.hidden = hidden
    work.initial = _data(initial)
    work.recurrent = _data(recurrent)
    work.bias = _data(bias)
    for step in range(steps):
        t = steps - 1 - step if is_reversed else step
        before = t + 1 if is_reversed else t - 1
        size, start = sizes[t], starts[t]
        continuing = _continuing(sizes, t, before)
        state = _state_before(out, h0, starts[before] if continuing else 0, continuing, size, space)
        product(state, by_state, recurrent[:size])
        work.from_previous = continuing
        work.previous = _row(previous_states, starts[before]) if continuing else NULL
        work.gates = _row(gates, start)
        work.cell = NULL if cells is None else _row(cells, start)
        work.out = _row(states, start)
        _run_recurrent(kernel, &work, size)
        if w_hr is not None:
            product(states[start:start + size], by_output, out[start:start + size])
    last = _last_of(out, sizes, starts, is_reversed)
    if code == LSTM:
        last_cells = _last_of(cells, sizes, starts, is_reversed)
    if states is gates:
        return out, last, None, (None, None, None)
    return out, last, last_cells, (gates, cells, None if w_hr is None else states)


cdef cnp.ndarray _last_of(cnp.ndarray values, sizes, tuple starts, bint is_reversed):
    """Return a new array with the last values of each sequence."""
    cdef Py_ssize_t t, size, longer = 0
    cdef cnp.ndarray last = _matrix(sizes[0], cnp.PyArray_DIM(values, 1), values)
    if is_reversed:
        last[...] = values[:sizes[0]]
        return last
    for t in range(len(sizes) - 1, -1, -1):
        size = sizes[t]
        if size > longer:
            last[longer:size] = values[<Py_ssize_t>starts[t] + longer:<Py_ssize_t>starts[t] + size]
            longer = size
    return last


def recurrent_backward(
    cell, sizes, bint is_reversed, wanted, cnp.ndarray x not None, cnp.ndarray h0, cnp.ndarray c0,
    cnp.ndarray w_ih not None, cnp.ndarray w_hh not None, cnp.ndarray w_hr, cnp.ndarray out not None, kept,
    cnp.ndarray d_out, cnp.ndarray d_h, cnp.ndarray d_c,
):
    """Return the gradients for x, h0, c0, w_ih, w_hh, w_hr, b_ih and b_hh; None for those not `wanted`.

    `out` and `kept` are from the forward pass. The gradients of its results may be None, for zeros.
    """
    cdef RecurrentWork work
    cdef int code = _CELLS[cell]
    cdef Py_ssize_t steps = len(sizes), count = sizes[0], blocks = _BLOCKS[code]
    cdef Py_ssize_t hidden = cnp.PyArray_DIM(w_hh, 0) // blocks, width = cnp.PyArray_DIM(w_hh, 1)
    cdef Py_ssize_t step, t, before, size, start, continuing, rows = cnp.PyArray_DIM(x, 0)
    cdef tuple starts = _starts(sizes, rows)
    cdef cnp.ndarray gates = kept[0], cells = kept[1], states = kept[2]
    cdef cnp.ndarray nothing = np.zeros(max(hidden, width), x.dtype), initial
    cdef cnp.ndarray carried, past = None, d_gates, d_recurrent, projected = None, d_states = None, d
    cdef cnp.ndarray previous_states = cells if code == LSTM else out
    cdef Kernel kernel = _recurrent.backward[code][kind_of(x)]
    wants_x, wants_h0, wants_c0, wants_w_ih, wants_w_hh, wants_w_hr, wants_b_ih, wants_b_hh = wanted
    if gates is None:
        gates = out
    if code == LSTM:
        initial = _zero_matrix(count, hidden, x) if c0 is None else c0
        past = _zero_matrix(count, hidden, x) if d_c is None else d_c.copy()
        carried = _zero_matrix(count, width, x) if d_h is None else d_h.copy()
    elif code == GRU:
        initial = _zero_matrix(count, hidden, x) if h0 is None else h0
        past = _zero_matrix(count, hidden, x) if d_h is None else d_h.copy()
        carried = _zero_matrix(count, width, x)
    else:
        initial = None
        carried = _zero_matrix(count, width, x) if d_h is None else d_h.copy()
    d_gates = _matrix(rows, blocks * hidden, x)
    d_recurrent = _matrix(rows, blocks * hidden, x) if code == GRU else d_gates
    if w_hr is not None:
        projected = _matrix(rows, width, x)
        d_states = _matrix(count, hidden, x)
    work.hidden = hidden
    work.initial = _data(initial)
    work.state_gradient = _data(past)
    work.gradient = _data(nothing)
    work.gradient_stride = 0
    work.carried = _data(carried)
    work.carried_stride = width
    if w_hr is not None:
        work.gradient = _data(d_states)
        work.gradient_stride = hidden
        work.carried = _data(nothing)
        work.carried_stride = 0
    elif d_out is not None:
        work.gradient_stride = width
    for step in range(steps):
        t = step if is_reversed else steps - 1 - step
        before = t + 1 if is_reversed else t - 1
        size, start = sizes[t], starts[t]
        continuing = _continuing(sizes, t, before)
        if w_hr is not None:
            d = projected[start:start + size]
            if d_out is None:
                d[...] = carried[:size]
            else:
                np.add(d_out[start:start + size], carried[:size], d)
            product(d, w_hr, d_states[:size])
        elif d_out is not None:
            work.gradient = _row(d_out, start)
        work.from_previous = continuing
        work.previous = _row(previous_states, starts[before]) if continuing else NULL
        work.gates = _row(gates, start)
        work.cell = NULL if cells is None else _row(cells, start)
        work.gates_gradient = _row(d_gates, start)
        work.recurrent_gradient = _row(d_recurrent, start)
        _run_recurrent(kernel, &work, size)
        if continuing or wants_h0:
            product(d_recurrent[start:start + size], w_hh, carried[:size])
    d_w_hr = product(_transposed(projected), states) if wants_w_hr else None
    projected = None
    d_w_hh = _by_state(d_recurrent, sizes, starts, is_reversed, out, h0, width) if wants_w_hh else None
    d_b_hh = d_recurrent.sum(0) if wants_b_hh else None
    d_recurrent = None
    d_w_ih = product(_transposed(d_gates), x) if wants_w_ih else None
    d_b_ih = None
    if wants_b_ih:
        d_b_ih = d_b_hh.copy() if wants_b_hh and code != GRU else d_gates.sum(0)
    d_x = product(d_gates, w_ih) if wants_x else None
    if wants_h0 and code == GRU:
        carried += past
    d_h0 = carried if wants_h0 else None
    d_c0 = past if wants_c0 and code == LSTM else None
    return d_x, d_h0, d_c0, d_w_ih, d_w_hh, d_w_hr, d_b_ih, d_b_hh


cdef object _by_state(
    cnp.ndarray d, sizes, tuple starts, bint is_reversed, cnp.ndarray out, cnp.ndarray h0, Py_ssize_t width
):
    """Return the gradient of the weight that multiplies states; `d` is the gradient of the products."""
    cdef Py_ssize_t steps = len(sizes), count = sizes[0], t, before, size, start, continuing
    cdef cnp.ndarray states, by
    if steps > 1 and sizes[steps - 1] == count:  # equal lengths: no copy of the states
        if is_reversed:
            by = product(_transposed(d[:-count]), out[count:])
        else:
            by = product(_transposed(d[count:]), out[:-count])
        if h0 is not None:
            by += product(_transposed(d[-count:] if is_reversed else d[:count]), h0)
        return by
    if h0 is None:
        h0 = _zero_matrix(count, width, d)
    states = _matrix(cnp.PyArray_DIM(d, 0), width, d)
    for t in range(steps):
        before = t + 1 if is_reversed else t - 1
        size, start = sizes[t], starts[t]
        continuing = _continuing(sizes, t, before)
        if continuing:
            states[start:start + continuing] = out[starts[before]:<Py_ssize_t>starts[before] + continuing]
        states[start + continuing:start + size] = h0[continuing:size]
    return product(_transposed(d), states)
