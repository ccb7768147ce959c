# cython: language_level=3, auto_pickle=False
"""Reserved memory and recorded allocations: the compiled part of plans."""

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

# As in `arena.h`: the bytes before the data of an array, and the alignment of places.
HEAD = 128
SLOT = 512

# The source line of each allocation in the running recording.
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
    """Records allocations of large blocks on this thread, and when they are freed, until ``stop()``."""

    cdef Recorder _recorder
    cdef bint _is_running

    def start(self):
        """Start recording."""
        global _sites
        if not _pool().record(&self._recorder):
            raise RuntimeError(
                "another plan is being recorded: run memory.plan() on one thread at a time, and not inside "
                "another plan"
            )
        self._recorder.noted = _note_site
        _sites = []
        self._is_running = True

    def stop(self):
        """Return the events, and the source line of each allocation.

        An event is (number, bytes, is_free, live bytes). The number is -1 for a block allocated before the
        start.
        """
        global _sites
        cdef Event event
        if self._is_running:
            self._is_running = False
            _pool().record(NULL)
        sites, _sites = _sites, None
        if self._recorder.is_incomplete:
            raise MemoryError("not enough memory to record all allocations of the plan")
        events = [(event.number, event.nbytes, event.is_free, event.live) for event in self._recorder.events]
        return events, sites

    def __dealloc__(self):
        if self._is_running:
            _pool().record(NULL)


@cython.final
cdef class Arena:
    """Memory reserved in one piece.

    Parameters
    ----------
    nbytes
        The size in bytes.
    places
        For each array of a plan, its requested bytes and the begin and end offsets of its place. Without
        places, the pool uses the memory.

    Raises
    ------
    MemoryError
        If the limit or the system refuses.
    """

    cdef CArena* _arena
    cdef bint _is_entered

    def __cinit__(self, size_t nbytes, list places not None):
        cdef vector[Planned] plan
        cdef Planned one
        for asked, begin, end in places:
            one.asked, one.begin, one.end = asked, begin, end
            plan.push_back(one)
        with nogil:  # the system call may take long
            self._arena = _pool().reserve(nbytes, plan)
        if self._arena is NULL:
            raise MemoryError

    def enter(self):
        """Serve the allocations of this thread."""
        if self._arena is NULL or self._is_entered:
            raise RuntimeError("this memory is in use or was already released: reserve it again")
        self._is_entered = True
        _pool().enter(self._arena)

    def leave(self):
        """Stop serving allocations."""
        if self._is_entered:
            self._is_entered = False
            _pool().leave(self._arena)

    def figures(self):
        """Return the number of allocations that got their planned place, and the number of others."""
        if self._arena is NULL:
            return 0, 0
        return self._arena.served, self._arena.missed

    def close(self):
        """Release the memory: now, or when the last array in it is freed."""
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
