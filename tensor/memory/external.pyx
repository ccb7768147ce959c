"""Memory of others under tensors: held as long as any array lies over it, and given back at once then."""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_SetInterrupt, PyErr_SetObject, PyErr_WriteUnraisable
from cpython.ref cimport PyObject

from tensor.memory.allocator cimport borrow, return_borrowed
from tensor.memory.buffer cimport array_over

cnp.import_array()

cdef PyObject* _newest = NULL


@cython.final
# No collector sees through arrays: a cycle through this is broken at the end of the program alone.
@cython.no_gc
cdef class External:
    """Memory of others: the base of an array over it, so that the last array over it ends the export.

    Then, in this order: what keeps the memory is let go, the bytes are borrowed no more, and `on_release` is
    called, which may close what they came from.

    Parameters
    ----------
    source
        What keeps the memory: a memoryview, whose exporter can't be closed meanwhile, or an array.
    nbytes
        How many bytes to count as borrowed.
    owner
        What to hold besides.
    on_release
        Called without arguments. What it raises goes to ``sys.unraisablehook``.
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
        """Return an array of the place and layout of `array`, whose base object this is."""
        return array_over(array, <char*>cnp.PyArray_DATA(array), self)

    def at(self, size_t address) -> cnp.ndarray:
        """Return the bytes at `address` as an array, whose base object this is."""
        cdef cnp.npy_intp size = self.nbytes
        cdef cnp.ndarray found = cnp.PyArray_SimpleNewFromData(1, &size, cnp.NPY_UINT8, <void*>address)
        cnp.set_array_base(found, self)
        return found

    @property
    def is_cared_for(self) -> bool:
        """Whether somebody wants to hear of the end, or something is held besides."""
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
            return  # it was never in the list: called with wrong arguments
        self.source = None
        self.owner = None
        self.on_release = None
        return_borrowed(self.nbytes)
        if on_release is not None:
            _tell(on_release)


cdef void _tell(object on_release) noexcept:
    """Call `on_release`; what it raises is reported, and an interrupt comes again when this is over."""
    cdef bint is_interrupt = False
    try:
        on_release()
    except BaseException as error:
        is_interrupt = isinstance(error, KeyboardInterrupt)
        PyErr_SetObject(type(error), error)
        PyErr_WriteUnraisable(on_release)
    if is_interrupt:
        PyErr_SetInterrupt()


def call_off() -> list[object]:
    """Let nobody be told any more, and return what would have been called."""
    cdef PyObject* each = _newest
    calls = []
    while each != NULL:
        if (<External>each).on_release is not None:
            calls.append((<External>each).on_release)
            (<External>each).on_release = None
        each = (<External>each).older
    return calls
