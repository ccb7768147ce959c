"""Direct convolution on the thread pool: a padded copy of the input, and sums of products over it.

Arrays are float32 or float64, C-contiguous. ``direct_convolution.h`` describes the layout of the copy. One
thread computes a whole sum, in a fixed order, so results do not depend on the number of threads. Call the
functions inside a kernel context.
"""

cimport numpy as cnp
from cython cimport final

from tensor.kernels.axes cimport Kernel, kind_of, new_array, run_units
from tensor.kernels.simd cimport simd_level

cnp.import_array()

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

cdef extern from "tensor/kernels/products.h" namespace "disposescope::kernels" nogil:
    const Py_ssize_t panel_bytes

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    Py_ssize_t ceil_of(Py_ssize_t n, Py_ssize_t by)

cdef const DirectConvolution* _kernels = direct_convolution_kernels_of(simd_level)

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
            _kernels.copy[self._kind], &work, samples * self._layout.channels,
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
            _kernels.add_up[self._kind], &work, work.runs * work.blocks, max(MULTIPLIED // max(one, 1), 1),
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
        tiles = ceil_of(work.count, _kernels.most_rows[self._kind])
        one = places * self._layout.samples * ceil_of(work.count, tiles)
        if work.rows <= FEW:
            run_units(
                _kernels.add_weights_of_few[self._kind], &work, work.groups * work.rows * tiles,
                max(MULTIPLIED // one, 1), places * self._layout.samples * self._itemsize,
            )
            return
        self._copy_to_panels(&work)
        units = work.groups * ceil_of(work.rows, panel_bytes // self._itemsize) * tiles
        run_units(
            _kernels.add_weights[self._kind], &work, units,
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
            _kernels.copy_to_panels[self._kind], &work, units, max(COPIED // (work.places * width), 1),
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
            _kernels.pack_weights[self._kind], &self._work,
            groups * ceil_of(self._work.rows, _kernels.most_rows[self._kind]),
            max(COPIED // (min(self._work.rows, _kernels.most_rows[self._kind]) * self._work.count), 1),
            cnp.PyArray_NBYTES(weight),
        )
        self._work.weight = NULL  # the array may be freed now


cpdef Py_ssize_t weight_channels(Py_ssize_t channels, Py_ssize_t itemsize):
    """Return the number of channels of a weight's gradient: `channels`, rounded up for panels."""
    cdef Py_ssize_t width = panel_bytes // itemsize
    return channels if channels <= FEW else ceil_of(channels, width) * width
