# cython: language_level=3, auto_pickle=False
"""Memory that is taken ahead, and what a function allocates: the compiled part of plans."""

cimport cython
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject
from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from scopes.lowlevel import call_site
from tensor.memory.allocator cimport the_pool


cdef extern from "tensor/memory/pool.h" namespace "disposescope::memory" nogil:
    cdef cppclass Planned:
        size_t asked
        size_t begin
        size_t end
    cdef cppclass CArena "disposescope::memory::Arena":
        int64_t served
        int64_t missed
    cdef cppclass Event:
        int64_t number
        int64_t nbytes
        cbool is_free
        int64_t live
    cdef cppclass Recorder:
        vector[Event] events
        cbool is_incomplete
        void (*noted)() noexcept
    cdef cppclass Pool:
        CArena* reserve(size_t, vector[Planned]) except +
        void enter(CArena*) noexcept
        void leave(CArena*) noexcept
        void close(CArena*) noexcept
        cbool record(Recorder*) noexcept

# Before the data of an array in an arena, and the step of places there: `arena.h`.
HEAD = 128
SLOT = 512

# Where the running recording's allocations were made.
cdef list _sites = None


cdef void _note_site() noexcept with gil:
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* traceback = NULL
    if _sites is None:
        return
    PyErr_Fetch(&kind, &value, &traceback)
    try:
        _sites.append(call_site())
    except BaseException:
        _sites.append(None)
    PyErr_Restore(kind, value, traceback)


cdef Pool* _pool() noexcept nogil:
    return <Pool*>the_pool()


@cython.final
cdef class Recording:
    """Notes the allocations of this thread in large blocks, and when these are freed, until ``stop()``."""

    cdef Recorder _recorder
    cdef bint _is_running

    def start(self):
        """Begin."""
        global _sites
        if not _pool().record(&self._recorder):
            raise RuntimeError(
                "another plan is being recorded: memory.plan() can't run inside another, or on two threads"
            )
        self._recorder.noted = _note_site
        _sites = []
        self._is_running = True

    def stop(self):
        """Return an event for each allocation and free: number, bytes, whether it is a free, bytes live then.

        The number is -1 for what was allocated before. The second list has the line of each allocation.
        """
        global _sites
        cdef Event event
        if self._is_running:
            self._is_running = False
            _pool().record(NULL)
        sites, _sites = _sites, None
        if self._recorder.is_incomplete:
            raise MemoryError("there was no memory to note all allocations of the plan")
        events = [(event.number, event.nbytes, event.is_free, event.live) for event in self._recorder.events]
        return events, sites

    def __dealloc__(self):
        if self._is_running:
            _pool().record(NULL)


@cython.final
cdef class Arena:
    """Memory taken ahead.

    Parameters
    ----------
    nbytes
        How much.
    places
        For each array of a plan the bytes asked for, and from where to where it lies; empty: for the pool.

    Raises
    ------
    MemoryError
        When the limit or the system refuses.
    """

    cdef CArena* _arena
    cdef bint _is_entered

    def __cinit__(self, size_t nbytes, list places not None):
        cdef vector[Planned] plan
        cdef Planned one
        for asked, begin, end in places:
            one.asked, one.begin, one.end = asked, begin, end
            plan.push_back(one)
        with nogil:  # the system may take long
            self._arena = _pool().reserve(nbytes, plan)
        if self._arena is NULL:
            raise MemoryError

    def enter(self):
        """Serve the allocations of this thread."""
        if self._arena is NULL or self._is_entered:
            raise RuntimeError("this memory was given back, or is in use: reserve it again")
        self._is_entered = True
        _pool().enter(self._arena)

    def leave(self):
        """Serve them no longer."""
        if self._is_entered:
            self._is_entered = False
            _pool().leave(self._arena)

    def figures(self):
        """Return how many allocations were served, and how many were not in the plan."""
        if self._arena is NULL:
            return 0, 0
        return self._arena.served, self._arena.missed

    def close(self):
        """Give the memory back: now, or with the last array in it."""
        cdef CArena* arena = self._arena
        self.leave()
        self._arena = NULL
        if arena is not NULL:
            with nogil:
                _pool().close(arena)

    def __dealloc__(self):
        if self._is_entered:
            _pool().leave(self._arena)
        if self._arena is not NULL:
            _pool().close(self._arena)
