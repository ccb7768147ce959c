"""Conversion between arrays and DLPack capsules, as NumPy does it, with support for bfloat16."""

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

import numpy as np

from tensor._dtypes import is_bfloat16, load_bfloat16

# DLPack's codes for the CPU device and for element types.
cdef tuple _CPU = (1, 0)
cdef enum:
    UNSIGNED = 1
    BFLOAT = 4

# The fields of dlpack.h up to the dtype.
cdef struct DLDevice:
    int32_t device_type
    int32_t device_id

cdef struct DLDataType:
    uint8_t code
    uint8_t bits
    uint16_t lanes

cdef struct DLTensor:
    void* data
    DLDevice device
    int32_t ndim
    DLDataType dtype

cdef struct DLManagedTensorVersioned:
    uint32_t major
    uint32_t minor
    void* manager_ctx
    void* deleter
    uint64_t flags
    DLTensor dl_tensor


cdef DLTensor* _tensor_in(object capsule) except NULL:
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        return &(<DLManagedTensorVersioned*>PyCapsule_GetPointer(capsule, "dltensor_versioned")).dl_tensor
    # Before version 1 of DLPack, the structure begins with the tensor.
    return <DLTensor*>PyCapsule_GetPointer(capsule, "dltensor")


cdef bint _relabel(object capsule, uint8_t old, uint8_t new) except -1:
    """Change the 16-bit element type of `capsule` from `old` to `new`. Return whether it was `old`."""
    cdef DLTensor* x = _tensor_in(capsule)
    if x.dtype.code != old or x.dtype.bits != 16 or x.dtype.lanes != 1:
        return False
    x.dtype.code = new
    return True


def capsule_of(array, max_version, copy):
    """Return a capsule over the memory of `array`. The arguments are those of ``__dlpack__``."""
    if not is_bfloat16(array.dtype):
        return array.__dlpack__(max_version=max_version, copy=copy)
    # NumPy can't export bfloat16. Export the bits as integers.
    capsule = array.view(np.uint16).__dlpack__(max_version=max_version, copy=copy)
    _relabel(capsule, UNSIGNED, BFLOAT)
    return capsule


class _Relabelled:
    """The memory of a producer of bfloat16, passed to NumPy as integers."""

    def __init__(self, producer, device, copy):
        self._device = producer.__dlpack_device__()
        options = {} if device is None else {"dl_device": _CPU}
        if copy is not None:
            options["copy"] = copy
        try:
            self._capsule = producer.__dlpack__(max_version=(1, 0), **options)
        except TypeError:  # the producer implements DLPack before version 1
            self._capsule = producer.__dlpack__()
        self.is_bfloat16 = _relabel(self._capsule, BFLOAT, UNSIGNED)

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return self._device


def array_of(producer, device=None, copy=None):
    """Return an array over the memory of `producer`. The arguments are those of ``numpy.from_dlpack``."""
    try:
        return np.from_dlpack(producer, device=device, copy=copy)
    except (RuntimeError, BufferError):  # BufferError since NumPy 2.5
        relabelled = _Relabelled(producer, device, copy)
        if not relabelled.is_bfloat16:
            raise
    return np.from_dlpack(relabelled).view(load_bfloat16())
