"""Buffers, and who looks at them: the fields that copy-on-write decides by. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t


cdef class Buffer:
    # The array that owns the block, or lies over somebody else's memory. Every array over the block keeps it
    # alive.
    cdef readonly cnp.ndarray root
    # From the first byte of the root's elements to behind the last one.
    cdef char* data
    cdef readonly Py_ssize_t nbytes
    # How many hold these values: one for each storage (a tensor with its views and aliases), one for each
    # Share.
    cdef readonly Py_ssize_t sharers
    # How many of these are Shares.
    cdef readonly Py_ssize_t shares
    # How many arrays outside lie over the block, and how many writes are at work.
    cdef readonly Py_ssize_t exports
    cdef readonly Py_ssize_t writers
    # Counts writes and exchanges of memory: one who copies sees by it that the copy is out of date.
    cdef uint64_t epoch
    # Somebody else's memory; outsiders may write to it at any time.
    cdef readonly bint is_external
    cdef readonly bint is_borrowed
    # NumPy's own memory, counted here; the allocator counts its own.
    cdef bint is_counted_here
    cdef bint is_pinned
    # One of those that look at it, to find the others; raw, who leaves names another. NULL: none, or none
    # that is known.
    cdef PyObject* member
    # Neighbours in the list of large buffers and those of others, for reports; raw, a buffer leaves it in
    # `__dealloc__`.
    cdef PyObject* newer
    cdef PyObject* older

    cdef void retain(self) noexcept
    cdef void release(self) noexcept
    cdef bint contains(self, cnp.ndarray array) noexcept


cdef class Share:
    # A snapshot of the values of a buffer: as long as it lives, a writer copies first.
    cdef readonly Buffer buffer
    # The values: an array over the buffer.
    cdef readonly cnp.ndarray array


# Count the block under `array` and return its buffer, without a sharer. MemoryError when it goes over the
# limit.
cdef Buffer new_buffer(cnp.ndarray array)
# The buffer under `array`, new and small; who counts its bytes is the caller's matter.
cdef Buffer new_small_buffer(cnp.ndarray array)
# As `new_buffer` for memory of others, which an `External` counts; `is_borrowed`: they may write to it.
cdef Buffer new_external(cnp.ndarray array, bint is_borrowed)
cdef Share new_share(Buffer buffer, cnp.ndarray array)
# The array that owns the memory of `array`, or the last one before somebody else's.
cdef cnp.ndarray root_of(cnp.ndarray array)
# A new array of the layout of `like` at `data`, in memory that `base` keeps.
cdef cnp.ndarray array_over(cnp.ndarray like, char* data, object base)
# A new array as `like`, `offset` bytes from the start of `root`, which it keeps alive.
cdef cnp.ndarray array_at(cnp.ndarray root, Py_ssize_t offset, cnp.ndarray like)
# A new array over the memory of `array` for outsiders, by which the buffer is pinned.
cdef cnp.ndarray exported(Buffer buffer, cnp.ndarray array, bint is_writable)
# The bytes that an array takes beside its data.
cdef int64_t array_overhead
# A new read-only array over the memory of `array` that holds a share of its values.
cdef cnp.ndarray shared_array(Share share)

# New arrays from the allocator; OutOfMemoryError when it refuses.
cpdef cnp.ndarray empty(tuple shape, object dtype, object like=*)
cpdef cnp.ndarray zeros(tuple shape, object dtype)
cpdef cnp.ndarray copy(cnp.ndarray array)
