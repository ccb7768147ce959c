"""Gather of patches as columns of a matrix, and scatter-add of such columns, on the thread pool.

Arrays are float32 or float64, C-contiguous. Padding with zeros is implicit. Results do not depend on the
number of threads. Call the functions inside a kernel context.
"""

cimport numpy as cnp

from tensor.kernels.axes cimport Kernel, kind_of, run_units
from tensor.kernels.simd cimport simd_level

cnp.import_array()

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

cdef const Patches* _kernels = patches_kernels_of(simd_level)

cdef enum:
    # The number of elements in a piece of work: about 5 us.
    PIECE = 1 << 14


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
            _kernels.gather[kind], &work, units, max(PIECE // (cnp.PyArray_SIZE(columns) // units), 1),
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
            _kernels.scatter[kind], &work, work.channels,
            max(PIECE // (cnp.PyArray_SIZE(columns) // work.channels), 1), cnp.PyArray_NBYTES(columns),
        )
