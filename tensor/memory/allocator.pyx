"""The allocator behind NumPy's functions, the counters of bytes, and what measures, limits and plans them.

NumPy allocates the data of new arrays with a handler that belongs to the current context (NEP 49). The
handler of this library is set only during kernel calls (`enter_pool`, ``with pooled():``), so other
libraries' arrays stay with NumPy's allocator. An array refers to the handler that allocated it. Freeing the
array, on any thread, returns the block to this allocator.

The allocator is written in C++ (`pool.h`). It needs neither the GIL nor a running interpreter.
"""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stddef cimport size_t
from libc.stdint cimport int64_t
from libc.string cimport memset, strcpy
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

import atexit
import gc
from contextvars import Context
from threading import get_ident, main_thread

import numpy as np

from scopes.tracking.records import call_site

cnp.import_array()


cdef extern from "Python.h":
    int Py_AddPendingCall(int (*function)(void*) except -1, void* argument) noexcept


cdef extern from "numpy/arrayobject.h":
    PyObject* PyArray_HANDLER(cnp.ndarray array) noexcept nogil


cdef extern from *:
    """
    #include "scopes/_shared/contexts.h"

    // NumPy keeps the handler in a context variable.
    static PyObject* set_handler(PyObject* handler) {
        [[maybe_unused]] scopes::CollectorPause pause;
        return PyDataMem_SetHandler(handler);
    }
    """
    object set_handler(object handler)

cdef extern from "<atomic>" namespace "std" nogil:
    cdef cppclass atomic[T]:
        T load() noexcept
        void store(T) noexcept
        T fetch_add(T) noexcept
        T fetch_sub(T) noexcept


ctypedef cbool (*relief_function)(int64_t) noexcept nogil


cdef extern from "tensor/memory/pool.h" namespace "disposescope::memory" nogil:
    const int64_t no_limit
    cdef cppclass CPeak "disposescope::memory::Peak":
        atomic[int64_t] nbytes
    cdef cppclass CLimit "disposescope::memory::Limit":
        int64_t nbytes
        atomic[int64_t] reserved_peak
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
    cdef cppclass CRefusal "disposescope::memory::Refusal":
        int64_t asked
        int64_t live
        int64_t cached
        int64_t limit
    cdef cppclass Counters:
        atomic[int64_t] pinned
        atomic[int64_t] cached
        atomic[int64_t] slack
        atomic[int64_t] external
        atomic[int64_t] allocated
        atomic[int64_t] allocations
        atomic[int64_t] frees
        atomic[int64_t] reuses
        atomic[int64_t] misses
        atomic[int64_t] donation_reuses
        atomic[int64_t] donation_misses
        CPeak process_peak
        void count_free(int64_t, cbool) noexcept
        void pin(int64_t) noexcept
        void unpin(int64_t) noexcept
        void start(CPeak*) noexcept
        void restart(CPeak*) noexcept
        void stop(CPeak*) noexcept
        int64_t read_live() noexcept
    cdef cppclass Pool:
        Counters counters
        void (*collect_garbage)() noexcept
        atomic[relief_function] relieve
        atomic[int64_t] limit
        atomic[size_t] min_pooled
        atomic[int64_t] max_cached
        atomic[int] fill
        CRefusal& last_refusal() noexcept
        void* allocate(size_t, cbool) noexcept
        void* reallocate(void*, size_t) noexcept
        void free(void*) noexcept
        cbool count(int64_t) noexcept
        @staticmethod
        cbool is_counted(void*) noexcept
        void pin(void*) noexcept
        void unpin(void*) noexcept
        int64_t trim(int64_t) noexcept
        void trim_to_limit() noexcept
        void fail(int64_t) noexcept
        vector[size_t] cached_capacities() except +
        atomic[int64_t] idle
        void set(CLimit*) noexcept
        void lift(CLimit*) noexcept
        CArena* reserve(size_t, vector[Planned]) except +
        void enter(CArena*) noexcept
        void leave(CArena*) noexcept
        void close(CArena*) noexcept
        cbool record(Recorder*) noexcept
    Pool& pool() noexcept
    void trim_heap() noexcept


# --- NumPy's hook -------------------------------------------------------------------------------------------


cdef void* _malloc(void* context, size_t n) noexcept nogil:
    return pool().allocate(n, False)


cdef void* _calloc(void* context, size_t count, size_t size) noexcept nogil:
    if size != 0 and count > <size_t> -1 // size:
        return NULL
    return pool().allocate(count * size, True)


cdef void* _realloc(void* context, void* data, size_t n) noexcept nogil:
    return pool().reallocate(data, n)


cdef void _free(void* context, void* data, size_t n) noexcept nogil:
    pool().free(data)


# Static, because arrays can outlive this module.
cdef cnp.PyDataMem_Handler _handler
strcpy(_handler.name, b"disposescope")
_handler.version = 1
_handler.allocator.ctx = NULL
_handler.allocator.malloc = _malloc
_handler.allocator.calloc = _calloc
_handler.allocator.realloc = _realloc
_handler.allocator.free = _free

cdef object _hook = PyCapsule_New(&_handler, "mem_handler", NULL)

cdef object _collect = gc.collect


# Skip the next collection: running a finalizer would lose the pending exception.
cdef bint _is_interrupted = False


cdef void _collect_garbage() noexcept with gil:
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* traceback = NULL
    global _is_interrupted
    if _is_interrupted:
        _is_interrupted = False
        return
    PyErr_Fetch(&kind, &value, &traceback)
    # PyGC_Collect() would do nothing while the collector is disabled. Run gc.collect() in a new context,
    # because the kernel's context would keep context variables that finalizers set.
    try:
        Context().run(_collect)
    except MemoryError:
        _collect()
    PyErr_Restore(kind, value, traceback)


pool().collect_garbage = _collect_garbage


# The function of budgets that frees memory; its argument is the number of missing bytes.
cdef object _relief = None
# Called with an exception. This thread's next refused allocation raises it instead of OutOfMemoryError.
cdef object _note = None


cdef int _raise_again(void* error) except -1:
    raised = <object>error
    Py_DECREF(raised)
    raise raised


cdef int _raise_soon(object error) except -1:
    """Raise `error`, for example from a signal handler, when the allocator's caller next runs Python code."""
    global _is_interrupted
    # Only the main thread runs signal handlers and pending calls.
    if get_ident() == main_thread().ident:
        _is_interrupted = True
        Py_INCREF(error)
        if Py_AddPendingCall(_raise_again, <void*>error) == 0:
            return 0
        Py_DECREF(error)
    _note(error)
    return 0


cdef cbool _relieve(int64_t missing) noexcept with gil:
    cdef PyObject* kind = NULL
    cdef PyObject* value = NULL
    cdef PyObject* traceback = NULL
    cdef cbool is_worth_a_try = False
    relief = _relief
    if relief is None:
        return False
    PyErr_Fetch(&kind, &value, &traceback)
    # In a new context, like the garbage collector.
    try:
        is_worth_a_try = Context().run(relief, missing)
    except MemoryError:
        pass  # no memory for Python objects: refuse the allocation
    except BaseException as error:
        _raise_soon(error)
    PyErr_Restore(kind, value, traceback)
    return is_worth_a_try


def set_relief(function, note) -> None:
    """Call ``function(missing_bytes)`` when a limit refuses memory. None removes the function.

    The function frees memory, and returns whether to try the allocation again. If it raises an exception, for
    example from a signal handler, the main thread raises it when it next runs Python code. On another thread,
    ``note(error)`` is called, and the op that allocates raises the error.
    """
    global _relief, _note
    _relief, _note = function, note
    if function is None:
        pool().relieve.store(NULL)
    else:
        pool().relieve.store(_relieve)


@atexit.register
def _stop_collecting():
    # After exit, finalizers could use modules that are partly torn down.
    pool().collect_garbage = NULL
    pool().relieve.store(NULL)


cdef object enter_pool():
    return set_handler(_hook)


cdef int leave_pool(object previous) except -1:
    set_handler(previous)
    return 0


@cython.final
cdef class pooled:
    """Use the allocator for the arrays that NumPy creates in a ``with`` block.

    The block is one kernel call. It must not await or yield. Create a new ``pooled()`` for each block.

    Examples
    --------
    >>> import numpy as np
    >>> from tensor.memory.allocator import is_counted, pooled
    >>> with pooled():
    ...     small, large = np.ones(3), np.ones(1_000_000)
    >>> is_counted(small), is_counted(large)
    (False, True)
    """

    cdef object _previous

    def __enter__(self):
        self._previous = enter_pool()

    def __exit__(self, kind, error, traceback):
        leave_pool(self._previous)
        self._previous = None


cpdef bint is_worth_pooling(Py_ssize_t nbytes) noexcept nogil:
    return <size_t> nbytes >= pool().min_pooled.load()


cpdef bint is_counted(cnp.ndarray owner) noexcept:
    """Return whether the allocator counts the block of `owner`. False for views, which own no data."""
    if PyArray_HANDLER(owner) != <PyObject*> _hook or not cnp.PyArray_CHKFLAGS(owner, cnp.NPY_ARRAY_OWNDATA):
        return False
    return Pool.is_counted(cnp.PyArray_DATA(owner))


# --- Counters for memory outside the pool -------------------------------------------------------------------


cpdef bint count_small(Py_ssize_t nbytes) noexcept:
    return pool().count(nbytes)


cpdef void uncount_small(Py_ssize_t nbytes, bint is_pinned) noexcept nogil:
    pool().counters.count_free(nbytes, is_pinned)


cpdef void pin(cnp.ndarray owner, Py_ssize_t nbytes) noexcept:
    if is_counted(owner):
        pool().pin(cnp.PyArray_DATA(owner))
    else:
        pool().counters.pin(nbytes)


cpdef void unpin(cnp.ndarray owner, Py_ssize_t nbytes) noexcept:
    if is_counted(owner):
        pool().unpin(cnp.PyArray_DATA(owner))
    else:
        pool().counters.unpin(nbytes)


cpdef void borrow(Py_ssize_t nbytes) noexcept nogil:
    pool().counters.external.fetch_add(nbytes)


cpdef void return_borrowed(Py_ssize_t nbytes) noexcept nogil:
    pool().counters.external.fetch_sub(nbytes)


cpdef void count_donation(bint is_reused) noexcept nogil:
    if is_reused:
        pool().counters.donation_reuses.fetch_add(1)
    else:
        pool().counters.donation_misses.fetch_add(1)


cdef overhead_function _overheads[16]
cdef int _overhead_count = 0


cdef int report_overhead_by(overhead_function function) except -1:
    global _overhead_count
    if _overhead_count == 16:
        raise RuntimeError("at most 16 functions can report overhead: increase the size of _overheads")
    _overheads[_overhead_count] = function
    _overhead_count += 1
    return 0


cdef bint has_relief() noexcept:
    return pool().relieve.load() != NULL


# --- Arrays -------------------------------------------------------------------------------------------------


cdef bint _is_large(tuple shape, cnp.dtype dtype) except -1:
    cdef size_t nbytes = cnp.PyDataType_ELSIZE(dtype)
    cdef Py_ssize_t n
    for n in shape:
        if n <= 0:
            return False  # nothing to allocate; NumPy raises the error for a negative size
        if nbytes > <size_t> -1 // <size_t> n:
            return True
        nbytes *= n
    return nbytes >= pool().min_pooled.load()


cpdef cnp.ndarray empty(tuple shape, object dtype, object like=None):
    """Return a new array with uninitialised values, or filled with the byte set by ``configure(fill=)``.

    The memory order is that of `like` if it has the same shape, else C order. A large array comes from the
    pool.

    Raises
    ------
    MemoryError
        If the limit or the system refuses; ``limits.out_of_memory()`` returns the error with details.
    """
    cdef cnp.dtype kind = np.dtype(dtype)
    cdef bint is_like = like is not None and like.shape == shape
    cdef cnp.ndarray array
    cdef object previous
    cdef int fill
    if _is_large(shape, kind):
        previous = enter_pool()
        try:
            return np.empty_like(like, kind, "K", False) if is_like else np.empty(shape, kind)
        finally:
            leave_pool(previous)
    array = np.empty_like(like, kind, "K", False) if is_like else np.empty(shape, kind)
    fill = pool().fill.load()
    if fill >= 0 and not kind.hasobject:
        memset(cnp.PyArray_DATA(array), fill, cnp.PyArray_NBYTES(array))
    return array


cpdef cnp.ndarray zeros(tuple shape, object dtype):
    """Return a new array of zeros. Large arrays come from the pool. Raise the same errors as ``empty``."""
    cdef cnp.dtype kind = np.dtype(dtype)
    cdef object previous
    if not _is_large(shape, kind):
        return np.zeros(shape, kind)
    previous = enter_pool()
    try:
        return np.zeros(shape, kind)
    finally:
        leave_pool(previous)


cpdef cnp.ndarray copy(cnp.ndarray array):
    """Return a copy of `array` in its memory order, from the pool if it is large. Errors as in ``empty``."""
    cdef object previous
    if not is_worth_pooling(cnp.PyArray_NBYTES(array)):
        return cnp.PyArray_NewCopy(array, cnp.NPY_KEEPORDER)
    previous = enter_pool()
    try:
        return cnp.PyArray_NewCopy(array, cnp.NPY_KEEPORDER)
    finally:
        leave_pool(previous)


# --- Statistics, settings and limits, for other modules of this folder --------------------------------------


def figures():
    """Return the current values of the fields of `MemoryStatistics`, in order."""
    cdef Counters* counters = &pool().counters
    cdef int64_t overhead = counters.slack.load()
    cdef int i
    for i in range(_overhead_count):
        overhead += _overheads[i]()
    # Read `pinned` and `live` before `allocated`. Otherwise an allocation of another thread in between could
    # make `bytes_freed` negative.
    cdef int64_t pinned = counters.pinned.load()
    cdef int64_t live = counters.read_live()
    cdef int64_t allocated = counters.allocated.load()
    return (
        live,
        counters.process_peak.nbytes.load(),
        allocated,
        allocated - live - pinned,
        counters.cached.load() + pool().idle.load(),
        counters.external.load(),
        pinned,
        counters.allocations.load(),
        counters.reuses.load(),
        counters.misses.load(),
        counters.donation_reuses.load(),
        counters.donation_misses.load(),
        overhead,
    )


def live_and_allocated():
    """Return the live bytes, and the bytes of all allocations so far."""
    cdef int64_t live = pool().counters.read_live()
    return live, pool().counters.allocated.load()


def live_or_pinned():
    """Return the number of buffers that are live or pinned, and their bytes."""
    cdef int64_t count = pool().counters.allocations.load() - pool().counters.frees.load()
    return count, pool().counters.read_live() + pool().counters.pinned.load()


def reset_peak():
    """Reset the peak of the process to the bytes that are live now."""
    pool().counters.restart(&pool().counters.process_peak)


def settings():
    """Return `max_cached_bytes`, `min_pooled_bytes` and `fill`."""
    cdef int fill = pool().fill.load()
    return pool().max_cached.load(), pool().min_pooled.load(), None if fill < 0 else fill


cdef int64_t _at_most(object nbytes) except -1:
    """Return a size limited to 62 bits, because limits beyond 4 EiB make no difference."""
    return min(nbytes, 1 << 62)


def set_max_cached(nbytes):
    """Limit the bytes that the pool caches to `nbytes`."""
    cdef int64_t most = _at_most(nbytes)
    pool().max_cached.store(most)
    pool().trim(most)


def set_min_pooled(nbytes):
    """Let the pool allocate arrays of at least `nbytes`."""
    pool().min_pooled.store(_at_most(nbytes))


def set_fill(int byte):
    """Fill uninitialised memory with `byte`; -1 turns filling off."""
    pool().fill.store(byte)


def trim(to_bytes, *, bint heap=False):
    """Return cached blocks to the system until at most `to_bytes` are cached. Return the bytes released.

    With `heap`, the C library also releases its free heap memory, which is not included in the result.
    """
    cdef int64_t most = _at_most(to_bytes)
    cdef int64_t gone
    with nogil:  # the system call may take long
        gone = pool().trim(most)
        if heap:
            trim_heap()
    return gone


def cached():
    """Return the number of cached blocks of each capacity."""
    found = {}
    for capacity in pool().cached_capacities():
        found[capacity] = found.get(capacity, 0) + 1
    return found


def cached_bytes():
    """Return the number of cached bytes."""
    return pool().counters.cached.load()


def is_in_budget():
    """Return whether a budget is open."""
    return has_relief()


def current_limit():
    """Return the smallest limit that is set, or None."""
    cdef int64_t limit = pool().limit.load()
    return None if limit == no_limit else limit


def take_refusal():
    """Return and clear this thread's last refusal, as (asked, live, cached, limit), or None.

    `limit` is None if the system refused.
    """
    cdef CRefusal* refusal = &pool().last_refusal()
    if refusal.asked < 0:
        return None
    limit = None if refusal.limit == no_limit else refusal.limit
    found = (refusal.asked, refusal.live, refusal.cached, limit)
    refusal.asked = -1
    return found


def fail_allocation(int64_t number):
    """Make the `number`-th allocation from now on fail; 0 turns this off. For debugging builds only."""
    if not DEBUGGING:
        raise RuntimeError("only a debugging build can make allocations fail: run `make build DEBUG=1`")
    pool().fail(number)


cdef extern from *:
    """
    #if !defined(DISPOSESCOPE_DEBUG)
    #define DISPOSESCOPE_DEBUG 0
    #endif
    """
    const bint DISPOSESCOPE_DEBUG

DEBUGGING = bool(DISPOSESCOPE_DEBUG)


# --- Peaks and limits ---------------------------------------------------------------------------------------
#
# Measure the peak of memory, or limit memory, between two calls.

@cython.final
cdef class Watch:
    """The peak of live bytes from ``start()`` until ``stop()``, or until this object is freed."""

    cdef CPeak _peak
    cdef bint _is_running

    def start(self):
        """Start at the bytes that are live now."""
        if self._is_running:
            pool().counters.restart(&self._peak)
        else:
            self._is_running = True
            pool().counters.start(&self._peak)

    def stop(self):
        """Stop measuring."""
        if self._is_running:
            self._is_running = False
            pool().counters.stop(&self._peak)

    @property
    def nbytes(self):
        """The peak so far."""
        return self._peak.nbytes.load()

    def __dealloc__(self):
        if self._is_running:
            pool().counters.stop(&self._peak)


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
            pool().set(&self._limit)

    def lift(self):
        """Remove the limit."""
        if self._is_set:
            self._is_set = False
            pool().lift(&self._limit)

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
            pool().lift(&self._limit)


# --- Reserved memory ----------------------------------------------------------------------------------------
#
# Reserved memory and recorded allocations: the compiled part of plans.

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


@cython.final
@cython.auto_pickle(False)
cdef class Recording:
    """Records allocations of large blocks on this thread, and when they are freed, until ``stop()``."""

    cdef Recorder _recorder
    cdef bint _is_running

    def start(self):
        """Start recording."""
        global _sites
        if not pool().record(&self._recorder):
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
            pool().record(NULL)
        sites, _sites = _sites, None
        if self._recorder.is_incomplete:
            raise MemoryError("not enough memory to record all allocations of the plan")
        events = [(event.number, event.nbytes, event.is_free, event.live) for event in self._recorder.events]
        return events, sites

    def __dealloc__(self):
        if self._is_running:
            pool().record(NULL)


@cython.final
@cython.auto_pickle(False)
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
            self._arena = pool().reserve(nbytes, plan)
        if self._arena is NULL:
            raise MemoryError

    def enter(self):
        """Serve the allocations of this thread."""
        if self._arena is NULL or self._is_entered:
            raise RuntimeError("this memory is in use or was already released: reserve it again")
        self._is_entered = True
        pool().enter(self._arena)

    def leave(self):
        """Stop serving allocations."""
        if self._is_entered:
            self._is_entered = False
            pool().leave(self._arena)

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
                pool().close(arena)

    def __dealloc__(self):
        if self._is_entered:
            pool().leave(self._arena)
        if self._arena is not NULL:
            pool().close(self._arena)
