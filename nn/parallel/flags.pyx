"""Flags in shared memory: integers that one process sets and others wait for."""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t

cdef extern from "nn/parallel/flags.h" namespace "disposescope":
    void set_flag(void* memory, int64_t place, int64_t value) noexcept nogil
    int64_t get_flag(const void* memory, int64_t place) noexcept nogil
    int64_t wait_for_flags(
        const void* memory, int64_t first, int64_t count, int64_t value, double seconds
    ) noexcept nogil


@cython.final
@cython.auto_pickle(False)
@cython.no_gc_clear  # `tp_clear` would drop the buffer without releasing it
cdef class Flags:
    """Integers of 8 bytes in `memory`. A process that reads a new value also sees all writes before ``set``.

    Parameters
    ----------
    memory
        A writable buffer, aligned to 8 bytes, whose length is a multiple of 8. The `Flags` object holds it,
        so an mmap can't be closed before this object is freed.

    Raises
    ------
    ValueError
        If `memory` is not aligned, or its length is not a multiple of 8.
    """

    # Holds the memory of the flags. A typed memoryview would generate 20,000 lines of C++.
    cdef Py_buffer buffer
    cdef Py_ssize_t count

    def __cinit__(self, memory):
        PyObject_GetBuffer(memory, &self.buffer, PyBUF_WRITABLE)
        if <size_t>self.buffer.buf % sizeof(int64_t) or <size_t>self.buffer.len % sizeof(int64_t):
            raise ValueError(
                "flags require memory that is aligned to 8 bytes, with a multiple of 8 bytes, not "
                f"{self.buffer.len} bytes at {<size_t>self.buffer.buf:#x}"
            )
        self.count = self.buffer.len // <Py_ssize_t>sizeof(int64_t)

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)

    def __len__(self):
        return self.count

    cdef int _check(self, Py_ssize_t first, Py_ssize_t count) except -1:
        if first < 0 or count < 1 or first + count > self.count:
            raise IndexError(f"flags {first} to {first + count - 1} are out of range: there are {self.count}")
        return 0

    def set(self, Py_ssize_t place, int64_t value) -> None:
        """Set the flag at `place` to `value`. All earlier writes of this thread become visible with it."""
        self._check(place, 1)
        set_flag(self.buffer.buf, place, value)

    def get(self, Py_ssize_t place) -> int:
        """Return the flag at `place`."""
        self._check(place, 1)
        return get_flag(self.buffer.buf, place)

    def wait(self, Py_ssize_t first, Py_ssize_t count, int64_t value, double seconds) -> int:
        """Wait until `count` flags from `first` on are at least `value`. Return a late flag's place, or -1.

        Wait at most `seconds`; 0 only checks. Other threads run meanwhile.
        """
        cdef int64_t late
        self._check(first, count)
        late = wait_for_flags(self.buffer.buf, first, count, value, 0)
        if late < 0 or seconds <= 0:
            return late
        # No Python object is used here. The caller holds `self`, which holds the memory.
        with nogil:
            late = wait_for_flags(self.buffer.buf, first, count, value, seconds)
        return late
