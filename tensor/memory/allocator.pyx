"""The allocator behind NumPy's functions, and the counters of bytes.

NumPy takes the data memory of new arrays from a handler that belongs to the current context (NEP 49). Ours
is set only around calls of kernels (`enter_pool`, ``with pooled():``), so other libraries' arrays stay
NumPy's. An array refers to the handler that made it: to free it, on any thread, gives the block
back here.

The allocator is C++ (`pool.h`): it needs neither the GIL nor a living interpreter.
"""

import atexit
import gc
from contextvars import Context
from threading import get_ident, main_thread

import numpy as np

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

cnp.import_array()


cdef extern from "Python.h":
    int Py_AddPendingCall(int (*function)(void*) except -1, void* argument) noexcept


cdef extern from "numpy/arrayobject.h":
    PyObject* PyArray_HANDLER(cnp.ndarray array) noexcept nogil


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
        void count_gone(int64_t, cbool) noexcept
        void pin(int64_t) noexcept
        void unpin(int64_t) noexcept
        void restart(CPeak*) noexcept
        int64_t look() noexcept
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


# Static, for arrays outlive this module.
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


# The next collection is left out: a finalizer would lose what is to be raised.
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
    # Not PyGC_Collect(), which does nothing while the collector is disabled. And in a context of its own: a
    # kernel's is used again, and what finalizers set would stay in it.
    try:
        Context().run(_collect)
    except MemoryError:
        _collect()
    PyErr_Restore(kind, value, traceback)


pool().collect_garbage = _collect_garbage


# What budgets do when memory is short: a function of the bytes that are missing.
cdef object _relief = None
# What the next refused allocation of a thread raises instead of OutOfMemoryError: a function of an exception.
cdef object _note = None


cdef int _raise_again(void* error) except -1:
    raised = <object>error
    Py_DECREF(raised)
    raise raised


cdef int _raise_soon(object error) except -1:
    """Raise `error`, such as that of a signal's handler, where the allocator's caller runs Python code."""
    global _is_interrupted
    # Only the main thread runs handlers, and pending calls.
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
    # In a context of its own, as the collector.
    try:
        is_worth_a_try = Context().run(relief, missing)
    except MemoryError:
        pass  # for Python's own objects: then it is refused
    except BaseException as error:
        _raise_soon(error)
    PyErr_Restore(kind, value, traceback)
    return is_worth_a_try


def relieve_by(function, note) -> None:
    """Call ``function(missing_bytes)`` when a limit refuses memory; None: call nothing.

    It frees what it can and returns whether another try is worth while. What it raises, by the handler of a
    signal for example, is raised on the main thread as soon as that runs Python code. On another thread it
    calls ``note(error)``, and the op that asks for memory raises the error.
    """
    global _relief, _note
    _relief, _note = function, note
    if function is None:
        pool().relieve.store(NULL)
    else:
        pool().relieve.store(_relieve)


@atexit.register
def _stop_collecting():
    # Afterwards finalizers may meet modules that are half gone.
    pool().collect_garbage = NULL
    pool().relieve.store(NULL)


cdef object enter_pool():
    return cnp.PyDataMem_SetHandler(_hook)


cdef int leave_pool(object previous) except -1:
    cnp.PyDataMem_SetHandler(previous)
    return 0


@cython.final
cdef class pooled:
    """Let NumPy's functions take memory from the allocator while a block runs.

    For one call of a kernel: the block must not await or yield, and needs a ``pooled()`` of its own.

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
    """Tell whether the allocator counts the block of `owner`, an array that owns its data; not of views."""
    if PyArray_HANDLER(owner) != <PyObject*> _hook or not cnp.PyArray_CHKFLAGS(owner, cnp.NPY_ARRAY_OWNDATA):
        return False
    return Pool.is_counted(cnp.PyArray_DATA(owner))


# --- What others count --------------------------------------------------------------------------------------


cpdef bint count_small(Py_ssize_t nbytes) noexcept:
    return pool().count(nbytes)


cpdef void uncount_small(Py_ssize_t nbytes, bint is_pinned) noexcept nogil:
    pool().counters.count_gone(nbytes, is_pinned)


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
        raise RuntimeError("there is room for 16 functions that report what objects take: raise the number")
    _overheads[_overhead_count] = function
    _overhead_count += 1
    return 0


cdef bint has_relief() noexcept:
    return pool().relieve.load() != NULL


cdef void* the_pool() noexcept nogil:
    return &pool()


# --- Arrays -------------------------------------------------------------------------------------------------


cdef bint _is_large(tuple shape, cnp.dtype dtype) except -1:
    cdef size_t nbytes = cnp.PyDataType_ELSIZE(dtype)
    cdef Py_ssize_t n
    for n in shape:
        if n <= 0:
            return False  # nothing to allocate; of a negative size NumPy says what is wrong
        if nbytes > <size_t> -1 // <size_t> n:
            return True
        nbytes *= n
    return nbytes >= pool().min_pooled.load()


cpdef cnp.ndarray empty(tuple shape, object dtype, object like=None):
    """Return a new array of whatever the memory held, or of the byte that ``configure(fill=)`` says.

    In the order of memory of `like` if that has the same shape, else in C order; large ones from the pool.

    Raises
    ------
    MemoryError
        When the limit or the system refuses it; ``limits.out_of_memory()`` says more.
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
    """Return a new array of zeros; large ones come from the pool. Raises as ``empty``."""
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
    """Return a copy of `array` in its order of memory; large ones come from the pool. Raises as ``empty``."""
    cdef object previous
    if not is_worth_pooling(cnp.PyArray_NBYTES(array)):
        return cnp.PyArray_NewCopy(array, cnp.NPY_KEEPORDER)
    previous = enter_pool()
    try:
        return cnp.PyArray_NewCopy(array, cnp.NPY_KEEPORDER)
    finally:
        leave_pool(previous)


# --- Figures, settings, limits: for the modules beside this one ---------------------------------------------


def figures():
    """Return the figures of `MemoryStatistics` at this moment, in its order."""
    cdef Counters* counters = &pool().counters
    cdef int64_t overhead = counters.slack.load()
    cdef int i
    for i in range(_overhead_count):
        overhead += _overheads[i]()
    # What falls when a buffer goes is read before what rises when it comes, so that other threads at work
    # can't make `bytes_freed` negative.
    cdef int64_t pinned = counters.pinned.load()
    cdef int64_t live = counters.look()
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
    """Return the bytes that are live, and all that ever were."""
    cdef int64_t live = pool().counters.look()
    return live, pool().counters.allocated.load()


def live_or_pinned():
    """Return the number of buffers that are live or pinned, and their bytes."""
    cdef int64_t count = pool().counters.allocations.load() - pool().counters.frees.load()
    return count, pool().counters.look() + pool().counters.pinned.load()


def reset_peak():
    """Let the peak of the process start again at what is live now."""
    pool().counters.restart(&pool().counters.process_peak)


def settings():
    """Return `max_cached_bytes`, `min_pooled_bytes` and `fill`."""
    cdef int fill = pool().fill.load()
    return pool().max_cached.load(), pool().min_pooled.load(), None if fill < 0 else fill


cdef int64_t _at_most(object nbytes) except -1:
    """Return a size as 64 bits hold it: beyond 4 EiB all sizes are the same."""
    return min(nbytes, 1 << 62)


def set_max_cached(nbytes):
    """Let the pool keep at most `nbytes`."""
    cdef int64_t most = _at_most(nbytes)
    pool().max_cached.store(most)
    pool().trim(most)


def set_min_pooled(nbytes):
    """Let arrays of `nbytes` and more come from the pool."""
    pool().min_pooled.store(_at_most(nbytes))


def set_fill(int byte):
    """Fill uninitialised memory with `byte`; -1 leaves it as it is."""
    pool().fill.store(byte)


def trim(to_bytes, *, bint heap=False):
    """Give blocks back to the system until at most `to_bytes` are cached; return how many bytes went.

    With `heap` the C library gives back what it keeps of small blocks too, which is not counted.
    """
    cdef int64_t most = _at_most(to_bytes)
    cdef int64_t gone
    with nogil:  # the system may take long
        gone = pool().trim(most)
        if heap:
            trim_heap()
    return gone


def cached():
    """Return how many blocks of each capacity wait for the next array."""
    found = {}
    for capacity in pool().cached_capacities():
        found[capacity] = found.get(capacity, 0) + 1
    return found


def cached_bytes():
    """Return the bytes that are cached."""
    return pool().counters.cached.load()


def is_in_budget():
    """Tell whether a budget is open."""
    return has_relief()


def current_limit():
    """Return the smallest of the limits that are set; None without any."""
    cdef int64_t limit = pool().limit.load()
    return None if limit == no_limit else limit


def take_refusal():
    """Return what this thread was refused last, as (asked, live, cached, limit), once; None if it was not.

    `limit` is None where the system refused.
    """
    cdef CRefusal* refusal = &pool().last_refusal()
    if refusal.asked < 0:
        return None
    limit = None if refusal.limit == no_limit else refusal.limit
    found = (refusal.asked, refusal.live, refusal.cached, limit)
    refusal.asked = -1
    return found


def fail_allocation(int64_t number):
    """Let the `number`-th allocation from now on fail; 0 lets none fail. Only in the debugging build."""
    if not DEBUGGING:
        raise RuntimeError("only the debugging build makes allocations fail: write `make build DEBUG=1`")
    pool().fail(number)


cdef extern from *:
    """
    #if !defined(DISPOSESCOPE_DEBUG)
    #define DISPOSESCOPE_DEBUG 0
    #endif
    """
    const bint DISPOSESCOPE_DEBUG

DEBUGGING = bool(DISPOSESCOPE_DEBUG)
