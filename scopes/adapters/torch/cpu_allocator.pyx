# cython: language_level=3, auto_pickle=False
"""Counts the memory of PyTorch's allocator for the CPU, and limits it; see ``cpu_allocator.h``."""

cimport cython
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF


cdef extern from "scopes/adapters/torch/cpu_allocator.h" namespace "scopes" nogil:
    const size_t NO_LIMIT
    const size_t _VIRTUAL_TABLE_BYTES "scopes::abi::VIRTUAL_TABLE_BYTES"
    const bint _HAS_LIBRARY_OF_PYTORCH "scopes::abi::HAS_LIBRARY_OF_PYTORCH"

    cdef struct CpuFigures:
        size_t live, peak, allocated, freed, count

    cdef struct Refusal:
        PyObject* type
        PyObject* value

    cdef cppclass CpuAllocator:
        Refusal (*refuse)(size_t) noexcept
        CpuFigures read()
        CpuFigures read_since "read"(const size_t* peak)
        CpuFigures begin(size_t* peak)
        void end(size_t* peak)
        void reset_peak()
        void set_limit(size_t nbytes)
        bint has_room(size_t nbytes)
        size_t size_of(size_t address)

    CpuAllocator* install_cpu_allocator(size_t get, size_t replace) except +


VIRTUAL_TABLE_BYTES = _VIRTUAL_TABLE_BYTES
HAS_LIBRARY_OF_PYTORCH = bool(_HAS_LIBRARY_OF_PYTORCH)

# PyTorch's allocator from `install` on. It lives until the process ends.
cdef CpuAllocator* _allocator = NULL
# Called with the bytes of an allocation that exceeds the limit. Returns the error, or None if they fit now.
cdef object _refusal = None


cdef Refusal _refuse(size_t nbytes) noexcept with gil:
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* traceback = NULL
    cdef Refusal refusal
    refusal.type = refusal.value = NULL
    PyErr_Fetch(&kind, &value, &traceback)
    try:
        error = _refusal(nbytes)
    except BaseException as failure:  # for example KeyboardInterrupt
        error = failure
    if error is not None:
        cls = type(error)
        Py_INCREF(cls)
        Py_INCREF(error)
        refusal.type, refusal.value = <PyObject*>cls, <PyObject*>error
    PyErr_Restore(kind, value, traceback)
    return refusal


def install(size_t get, size_t replace, refusal):
    """Count the allocations of PyTorch's CPU tensors from now on. Return whether PyTorch took the allocator.

    Parameters
    ----------
    get, replace
        The addresses of ``c10::GetCPUAllocator`` and ``c10::SetCPUAllocator``.
    refusal
        Called with the bytes of an allocation that exceeds the limit. It returns the error to raise, or None
        if the bytes fit now.
    """
    global _allocator, _refusal
    _refusal = refusal
    _allocator = install_cpu_allocator(get, replace)
    if _allocator is NULL:
        return False
    _allocator.refuse = _refuse
    return True


def figures():
    """Return the live bytes, their peak, all allocated and freed bytes, and the number of allocations."""
    cdef CpuFigures found = _allocator.read()
    return found.live, found.peak, found.allocated, found.freed, found.count


def reset_peak():
    """Reset the peak to the live bytes."""
    _allocator.reset_peak()


def set_limit(nbytes):
    """Refuse allocations that would make more than `nbytes` live; None: refuse none."""
    _allocator.set_limit(NO_LIMIT if nbytes is None else min(nbytes, NO_LIMIT - 1))


def has_room(size_t nbytes):
    """Return whether an allocation of `nbytes` is within the limit now."""
    return _allocator.has_room(nbytes)


def size_of(size_t address):
    """Return the bytes of the counted block that begins at `address`; 0 for none."""
    return _allocator.size_of(address)


@cython.final
cdef class Watch:
    """Finds the peak of the live bytes while it runs."""

    cdef size_t peak
    cdef bint is_running

    def __dealloc__(self):
        self.stop()

    def start(self):
        """Begin. Return the live and all allocated bytes of this moment."""
        cdef CpuFigures found = _allocator.begin(&self.peak)
        self.is_running = True
        return found.live, found.allocated

    def read(self):
        """Return the peak since the start, and the live and all allocated bytes."""
        cdef CpuFigures found = _allocator.read_since(&self.peak)
        return found.peak, found.live, found.allocated

    cpdef void stop(self) noexcept:
        """End."""
        if self.is_running:
            self.is_running = False
            _allocator.end(&self.peak)
