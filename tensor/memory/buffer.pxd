"""Buffers, with the counts that decide copy-on-write, and external memory. For `cimport`."""

cimport numpy as cnp
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t


cdef class Buffer:
    # The array that owns the block, or the array whose base is external memory. Every array over the block
    # keeps this array alive.
    cdef readonly cnp.ndarray root
    # The address of the block's first byte, and its size.
    cdef char* data
    cdef readonly Py_ssize_t nbytes
    # The number of holders of these values: one for each storage (a tensor with its views and aliases), and
    # one for each Share.
    cdef readonly Py_ssize_t sharers
    # The number of Shares among the sharers.
    cdef readonly Py_ssize_t shares
    # The number of exported arrays over the block, and of running writes.
    cdef readonly Py_ssize_t exports
    cdef readonly Py_ssize_t writers
    # Increases with each write, export and move of a storage to other memory. Code that copies compares it,
    # to detect that its copy is outdated.
    cdef uint64_t epoch
    # The value of `tensors_made` (`tensor.core.tensor`) at the last use of the array by a tensor.
    cdef uint64_t used_at
    # Whether the memory is external, and whether its owner may write to it at any time.
    cdef readonly bint is_external
    cdef readonly bint is_borrowed
    # Whether this object counts the bytes, because NumPy allocated them. The allocator counts its own blocks.
    cdef bint is_counted_here
    cdef bint is_pinned
    # A tensor of one storage on this buffer, to find the storage's tensors; a borrowed pointer. A tensor that
    # leaves the storage sets another one. NULL if none is known.
    cdef PyObject* member
    # The neighbours in the list of large and external buffers, for reports. Borrowed pointers: `__dealloc__`
    # removes the buffer from the list.
    cdef PyObject* newer
    cdef PyObject* older

    cdef void retain(self) noexcept
    cdef void release(self) noexcept
    cdef bint contains(self, cnp.ndarray array) noexcept


cdef class Share:
    # A snapshot of the values of a buffer. While it lives, a writer has to copy first.
    cdef readonly Buffer buffer
    # An array over the buffer with the values.
    cdef readonly cnp.ndarray array


# Count the block under `array` as live, and return its buffer, without a sharer. Raise MemoryError if the
# limit refuses.
cdef Buffer new_buffer(cnp.ndarray array)
# Return the buffer under the new, small `array`. The caller counts its bytes.
cdef Buffer new_small_buffer(cnp.ndarray array)
# Like `new_buffer`, for external memory, which an `External` counts. `is_borrowed`: its owner may write to
# it.
cdef Buffer new_external(cnp.ndarray array, bint is_borrowed)
cdef Share new_share(Buffer buffer, cnp.ndarray array)
# Return the array that owns the memory of `array`, or the array whose base is external memory.
cdef cnp.ndarray root_of(cnp.ndarray array)
# Return a new array with the layout of `like` at `data`. It holds a reference to `base`.
cdef cnp.ndarray array_over(cnp.ndarray like, char* data, object base)
# Return a new array with the layout of `like`, `offset` bytes after the start of `root`, which it keeps
# alive.
cdef cnp.ndarray array_at(cnp.ndarray root, Py_ssize_t offset, cnp.ndarray like)
# Return a new array over the memory of `array` for code outside the library. It pins the buffer.
cdef cnp.ndarray exported(Buffer buffer, cnp.ndarray array, bint is_writable)
# The bytes of an array in addition to its data.
cdef int64_t array_overhead
# The bytes that the garbage collector puts before an object: 0 in free-threaded Python.
cdef int64_t collector_header
# Return a new read-only array over the memory of `share.array`. It holds the share.
cdef cnp.ndarray shared_array(Share share)

# New arrays from the allocator. Raise OutOfMemoryError if it refuses.
cpdef cnp.ndarray empty(tuple shape, object dtype, object like=*)
cpdef cnp.ndarray zeros(tuple shape, object dtype)
cpdef cnp.ndarray copy(cnp.ndarray array)


cdef class Exported:
    # Owned by the exporter, and valid until `view` is released.
    cdef Py_buffer view
    cdef bint has_references(self) noexcept
    cdef bint has_gaps(self) noexcept


cdef class External:
    # The object that keeps the memory: an `Exported` or an array; None for a bare address.
    cdef object source
    # Another object to keep alive, released together with `source`.
    cdef object owner
    cdef object on_release
    # The number of bytes counted as external.
    cdef readonly Py_ssize_t nbytes
    # The neighbours in the list of all live objects. Borrowed pointers: `__dealloc__` removes the object.
    cdef PyObject* newer
    cdef PyObject* older
    cdef cnp.ndarray over_exported(self, Py_ssize_t offset, tuple shape, cnp.dtype dtype)
