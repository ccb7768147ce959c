"""Flags in shared memory: integers that one process sets and others wait for."""

cimport cython
from libc.stdint cimport int64_t

cdef extern from "nn/parallel/flags.h" namespace "disposescope":
    void set_flag(void* memory, int64_t place, int64_t value) noexcept nogil
    int64_t get_flag(const void* memory, int64_t place) noexcept nogil
    int64_t wait_for_flags(
        const void* memory, int64_t first, int64_t count, int64_t value, double seconds
    ) noexcept nogil


@cython.final
@cython.auto_pickle(False)
cdef class Flags:
    """Integers of 8 bytes in `memory`. A process that reads a new value also sees all writes before ``set``.

    Parameters
    ----------
    memory
        A writable buffer, aligned to 8 bytes. The flags hold it, so a mapping can't be closed before they
        are freed.
    """

    # Holds the buffer of the flags.
    cdef int64_t[::1] memory

    def __init__(self, memory):
        self.memory = memoryview(memory).cast("B").cast("q")

    def __len__(self):
        return self.memory.shape[0]

    cdef int _check(self, Py_ssize_t first, Py_ssize_t count) except -1:
        if first < 0 or count < 1 or first + count > self.memory.shape[0]:
            raise IndexError(f"{count} flags from {first} on, but there are {self.memory.shape[0]}")
        return 0

    def set(self, Py_ssize_t place, int64_t value) -> None:
        """Set the flag at `place` to `value`. All earlier writes of this thread become visible with it."""
        self._check(place, 1)
        set_flag(&self.memory[0], place, value)

    def get(self, Py_ssize_t place) -> int:
        """Return the flag at `place`."""
        self._check(place, 1)
        return get_flag(&self.memory[0], place)

    def wait(self, Py_ssize_t first, Py_ssize_t count, int64_t value, double seconds) -> int:
        """Wait until `count` flags from `first` on are at least `value`. Return a late flag's place, or -1.

        Wait at most `seconds`; 0 only checks. Other threads run meanwhile.
        """
        cdef void* memory
        cdef int64_t late
        self._check(first, count)
        memory = &self.memory[0]
        late = wait_for_flags(memory, first, count, value, 0)
        if late < 0 or seconds <= 0:
            return late
        # No Python object is used here. The caller holds `self`, which holds the memory.
        with nogil:
            late = wait_for_flags(memory, first, count, value, seconds)
        return late
