"""External memory under tensors: held while an array uses it, and released with the last array."""

cimport cython
cimport numpy as cnp
from cpython.buffer cimport PyBUF_FULL_RO, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetInterrupt, PyErr_SetObject, PyErr_WriteUnraisable
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF, PyObject
from libc.string cimport strchr

from tensor.memory.allocator cimport borrow, return_borrowed
from tensor.memory.buffer cimport array_over

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    PyTypeObject PyArray_Type
    object PyArray_NewFromDescr(
        PyTypeObject* kind, cnp.dtype dtype, int ndim, const cnp.npy_intp* shape,
        const cnp.npy_intp* strides, void* data, int flags, PyObject* prototype
    )

cdef PyObject* _newest = NULL


@cython.final
@cython.no_gc  # only held by an `External`, which the garbage collector does not traverse either
cdef class Exported:
    """All bytes of an exporter's buffer. The exporter can't resize or close it until this object is freed.

    If the exporter is a memoryview, its ``release`` fails too. A second memoryview would not prevent that.
    Raises ``TypeError`` if the object does not support the buffer protocol.
    """

    def __cinit__(self, exporter):
        PyObject_GetBuffer(exporter, &self.view, PyBUF_FULL_RO)

    cdef bint has_references(self) noexcept:
        """Return whether the elements are references to Python objects."""
        return self.view.format != NULL and strchr(self.view.format, b"O") != NULL

    cdef bint has_gaps(self) noexcept:
        """Return whether the bytes are not contiguous, in C or Fortran order."""
        return not PyBuffer_IsContiguous(&self.view, b"A")

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


@cython.final
# The garbage collector does not traverse arrays: only the end of the program breaks a cycle through this
# object.
@cython.no_gc
cdef class External:
    """External memory: the base object of an array over it. Freeing the last such array ends the export.

    Then, in this order: the source and the owner are released, the bytes are no longer counted as external,
    and `on_release` is called, for example to close a file.

    Parameters
    ----------
    source
        The object that keeps the memory: an `Exported` or an array; None for a bare address.
    nbytes
        The number of bytes to count as external.
    owner
        Another object to keep alive.
    on_release
        Called without arguments. Its exceptions go to ``sys.unraisablehook``.
    """

    def __cinit__(self, source, Py_ssize_t nbytes, *, owner=None, on_release=None):
        global _newest
        self.source = source
        self.owner = owner
        self.on_release = on_release
        self.nbytes = nbytes
        borrow(nbytes)
        self.older = _newest
        if _newest != NULL:
            (<External>_newest).newer = <PyObject*>self
        _newest = <PyObject*>self

    def over(self, cnp.ndarray array not None) -> cnp.ndarray:
        """Return an array over the memory of `array`, with its layout, and with this object as its base."""
        return array_over(array, <char*>cnp.PyArray_DATA(array), self)

    cdef cnp.ndarray over_exported(self, Py_ssize_t offset, tuple shape, cnp.dtype dtype):
        """Return an array over the bytes of the `Exported` source from `offset` on, with this as its base.

        The caller has checked the bounds.
        """
        cdef Exported source = self.source
        cdef cnp.npy_intp sizes[cnp.NPY_MAXDIMS]
        cdef cnp.ndarray found
        cdef int i
        if len(shape) > cnp.NPY_MAXDIMS:
            raise ValueError(f"an array has at most {cnp.NPY_MAXDIMS} dimensions, not {len(shape)}")
        for i in range(<int>len(shape)):
            sizes[i] = shape[i]
        Py_INCREF(dtype)  # NumPy takes over this reference
        found = PyArray_NewFromDescr(
            &PyArray_Type, dtype, <int>len(shape), sizes, NULL, <char*>source.view.buf + offset,
            0 if source.view.readonly else cnp.NPY_ARRAY_WRITEABLE, NULL,
        )
        cnp.PyArray_UpdateFlags(found, cnp.NPY_ARRAY_ALIGNED)
        cnp.set_array_base(found, self)
        return found

    def at(self, size_t address) -> cnp.ndarray:
        """Return an array over the bytes at `address`, with this as its base."""
        cdef cnp.npy_intp size = self.nbytes
        cdef cnp.ndarray found = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_UINT8, <void*>address)
        cnp.set_array_base(found, self)
        return found

    @property
    def has_release_action(self) -> bool:
        """Whether there is a callback to call, or an owner to release."""
        return self.on_release is not None or self.owner is not None

    def __dealloc__(self):
        global _newest
        cdef object on_release = self.on_release
        if self.older != NULL:
            (<External>self.older).newer = self.newer
        if self.newer != NULL:
            (<External>self.newer).older = self.older
        elif _newest == <PyObject*>self:
            _newest = self.older
        else:
            return  # never listed: the constructor raised an error
        self.source = None
        self.owner = None
        self.on_release = None
        return_borrowed(self.nbytes)
        if on_release is not None:
            _call(on_release)


cdef void _call(object on_release) noexcept:
    """Call `on_release`. Report exceptions as unraisable, and raise an interrupt again afterwards."""
    cdef bint is_interrupt = False
    try:
        on_release()
    except BaseException as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        PyErr_SetObject(type(error), error)
        PyErr_WriteUnraisable(on_release)
    if is_interrupt:
        PyErr_SetInterrupt()


def cancel_callbacks() -> list[object]:
    """Remove all callbacks, and return them."""
    cdef PyObject* each = _newest
    calls = []
    while each != NULL:
        if (<External>each).on_release is not None:
            calls.append((<External>each).on_release)
            (<External>each).on_release = None
        each = (<External>each).older
    return calls
