"""Measure the peak of memory, or limit memory, between two calls."""

cimport cython
from libc.stdint cimport int64_t

from tensor.memory.allocator cimport the_pool


cdef extern from "<atomic>" namespace "std" nogil:
    cdef cppclass atomic[T]:
        T load() noexcept


cdef extern from "tensor/memory/pool.h" namespace "disposescope::memory" nogil:
    cdef cppclass CPeak "disposescope::memory::Peak":
        atomic[int64_t] nbytes
    cdef cppclass CLimit "disposescope::memory::Limit":
        int64_t nbytes
        atomic[int64_t] reserved_peak
    cdef cppclass Counters:
        void start(CPeak*) noexcept
        void restart(CPeak*) noexcept
        void stop(CPeak*) noexcept
    cdef cppclass Pool:
        Counters counters
        void set(CLimit*) noexcept
        void lift(CLimit*) noexcept

cdef Pool* _pool = <Pool*>the_pool()


@cython.final
cdef class Watch:
    """The peak of live bytes from ``start()`` until ``stop()``, or until this object is freed."""

    cdef CPeak _peak
    cdef bint _is_running

    def start(self):
        """Start at the bytes that are live now."""
        if self._is_running:
            _pool.counters.restart(&self._peak)
        else:
            self._is_running = True
            _pool.counters.start(&self._peak)

    def stop(self):
        """Stop measuring."""
        if self._is_running:
            self._is_running = False
            _pool.counters.stop(&self._peak)

    @property
    def nbytes(self):
        """The peak so far."""
        return self._peak.nbytes.load()

    def __dealloc__(self):
        if self._is_running:
            _pool.counters.stop(&self._peak)


@cython.final
cdef class Bound:
    """A limit for live, pinned and cached bytes from ``set()`` until ``lift()`` or its deallocation."""

    cdef CLimit _limit
    cdef bint _is_set

    def __cinit__(self, nbytes):
        self._limit.nbytes = min(nbytes, 1 << 62)  # limits beyond 4 EiB make no difference

    def set(self):
        """Set the limit, and release cached memory beyond it."""
        if not self._is_set:
            self._is_set = True
            _pool.set(&self._limit)

    def lift(self):
        """Remove the limit."""
        if self._is_set:
            self._is_set = False
            _pool.lift(&self._limit)

    @property
    def nbytes(self):
        """The limit in bytes."""
        return self._limit.nbytes

    @property
    def reserved_peak(self):
        """The most bytes that arrays and the pool took from the system at once while the limit was set."""
        return self._limit.reserved_peak.load()

    def __dealloc__(self):
        if self._is_set:
            _pool.lift(&self._limit)
