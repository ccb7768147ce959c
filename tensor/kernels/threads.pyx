"""The pool of threads that all kernels share, and its settings."""

cimport cython
from libc.stdint cimport int64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

import os

from scopes.lowlevel import when_imported

cdef extern from "tensor/kernels/thread_pool.h" namespace "disposescope::kernels" nogil:
    ctypedef void (*Body)(void* context, Py_ssize_t start, Py_ssize_t end) noexcept nogil
    const int most_threads
    atomic[int] thread_count
    atomic[int64_t] awake_nanoseconds
    void prepare_for_forks() noexcept
    void run_on_pool "disposescope::kernels::parallel_for" (
        Py_ssize_t size, Py_ssize_t grain, Body body, void* context
    ) noexcept


cdef void parallel_for(
    Py_ssize_t size,
    Py_ssize_t grain,
    void (*body)(void* context, Py_ssize_t start, Py_ssize_t end) noexcept nogil,
    void* context,
) noexcept nogil:
    run_on_pool(size, grain, body, context)


@cython.cdivision(True)
cdef Py_ssize_t even_grain(Py_ssize_t size, Py_ssize_t grain) noexcept nogil:
    cdef Py_ssize_t pieces = (size + grain - 1) // grain
    cdef Py_ssize_t threads = min(<Py_ssize_t> thread_count.load(), pieces)
    cdef Py_ssize_t even
    if threads < 2:
        return grain
    pieces = (pieces + threads - 1) // threads * threads
    even = (size + pieces - 1) // pieces
    # Large ones begin where a cache line does, if the array does.
    return even if even < 1024 else (even + 63) // 64 * 64


def set_num_threads(n):
    """Let `n` threads compute on large arrays, 1 to 256; 1 leaves all to the thread that asks.

    Results are the same to the last bit for any number. The libraries below NumPy (BLAS) have threads and
    settings of their own; ``threadpoolctl.threadpool_limits`` sets theirs and ours.

    Examples
    --------
    >>> import tensor
    >>> before = tensor.get_num_threads()
    >>> tensor.set_num_threads(1)
    >>> tensor.get_num_threads()
    1
    >>> tensor.set_num_threads(before)
    """
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_num_threads takes an int, not {type(n).__name__}")
    if n < 1:
        raise ValueError(f"set_num_threads: at least 1 thread computes, not {n}: write 1 for no other")
    if n > most_threads:
        raise ValueError(f"set_num_threads: at most {most_threads} threads compute, not {n}")
    thread_count.store(n)


def get_num_threads():
    """Return how many threads compute on large arrays.

    At first as many as the process may use cores, at most 16, or the number in the environment variable
    ``OMP_NUM_THREADS``.

    Examples
    --------
    >>> import tensor
    >>> tensor.get_num_threads() >= 1
    True
    """
    return thread_count.load()


def configure_threads(*, awake_microseconds=None):
    """Set how long a thread stays awake when it has nothing to do; what is not given stays.

    A thread that sleeps begins 45 to 100 microseconds late, one that is awake uses a core: it looks for work
    again and again, and offers the core to others in between. At first 100 microseconds, or the number
    in the environment variable ``DISPOSESCOPE_AWAKE_MICROSECONDS``.

    Examples
    --------
    >>> from tensor.lowlevel import configure_threads
    >>> configure_threads(awake_microseconds=0)  # threads sleep at once
    >>> configure_threads(awake_microseconds=100)
    """
    if awake_microseconds is None:
        return
    if isinstance(awake_microseconds, bool) or not isinstance(awake_microseconds, (int, float)):
        raise TypeError(
            f"configure_threads: awake_microseconds is a number, not {type(awake_microseconds).__name__}"
        )
    if not 0 <= awake_microseconds <= LONGEST:
        raise ValueError(
            f"configure_threads: awake_microseconds is from 0 to {LONGEST}, not {awake_microseconds!r}"
        )
    awake_nanoseconds.store(<int64_t> (1000 * awake_microseconds))


cdef enum:
    LONGEST = 1_000_000


cdef int _default_count():
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        return min(int(wanted), most_threads)
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        usable = os.cpu_count() or 1
    # Memory has little more to give to more than these.
    return min(usable, 16)


cdef _read_awake_time():
    wanted = os.environ.get("DISPOSESCOPE_AWAKE_MICROSECONDS", "").strip()
    if wanted.isdecimal() and int(wanted) <= LONGEST:
        awake_nanoseconds.store(1000 * <int64_t> int(wanted))


thread_count.store(_default_count())
_read_awake_time()
prepare_for_forks()


# --- threadpoolctl ------------------------------------------------------------------------------------------

cdef extern from *:
    """
    #if defined(_WIN32)
    #define DISPOSESCOPE_EXPORTED __declspec(dllexport)
    #else
    #define DISPOSESCOPE_EXPORTED __attribute__((visibility("default")))
    #endif

    /* By this name threadpoolctl finds this library among those that are loaded. */
    extern "C" DISPOSESCOPE_EXPORTED int disposescope_get_num_threads(void) {
        return disposescope::kernels::thread_count.load();
    }
    """


def _threads_of(controller):
    return get_num_threads()


def _set_threads_of(controller, n):
    set_num_threads(max(1, min(int(n), most_threads)))


def _version_of(controller):
    return None


def _register_at(threadpoolctl):
    """Let ``threadpoolctl.threadpool_limits`` set our threads too."""
    content = {
        "user_api": "disposescope",
        "internal_api": "disposescope",
        "filename_prefixes": ("threads.",),
        "check_symbols": ("disposescope_get_num_threads",),
        "get_num_threads": _threads_of,
        "set_num_threads": _set_threads_of,
        "get_version": _version_of,
    }
    threadpoolctl.register(type("ThreadsController", (threadpoolctl.LibController,), content))


# Not imported here: it takes 4 ms to load.
when_imported("threadpoolctl", _register_at)


# --- Who takes which piece, for tests of the pool -----------------------------------------------------------

cdef extern from *:
    """
    #include <chrono>
    #include <cstdint>
    #include <functional>
    #include <thread>

    struct PieceRecord { int64_t start, end; uint64_t thread; };
    struct PieceRecords { PieceRecord *first; int64_t grain, nanoseconds, of_workers; uint64_t caller; };

    static uint64_t this_thread() { return std::hash<std::thread::id>()(std::this_thread::get_id()); }

    static void record_piece(void *context, Py_ssize_t start, Py_ssize_t end) {
        const PieceRecords *records = static_cast<PieceRecords *>(context);
        const uint64_t self = this_thread();
        const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(
            self == records->caller ? records->nanoseconds : records->of_workers);
        do {
            records->first[start / records->grain] = {start, end, self};
        } while (std::chrono::steady_clock::now() < until);
    }
    """
    struct PieceRecord:
        int64_t start
        int64_t end
        size_t thread
    struct PieceRecords:
        PieceRecord* first
        int64_t grain
        int64_t nanoseconds
        int64_t of_workers
        size_t caller
    size_t this_thread() noexcept
    void record_piece(void* context, Py_ssize_t start, Py_ssize_t end) noexcept nogil


def record_pieces(
    Py_ssize_t size, Py_ssize_t grain, *, int64_t microseconds=0, int64_t worker_microseconds=0
):
    """Return ``(start, end, thread)`` of each piece of `parallel_for`, which takes so many microseconds.

    A worker's piece takes `worker_microseconds`, if these are more.

    >>> [(start, end) for start, end, thread in record_pieces(10, 4)]
    [(0, 4), (4, 8), (8, 10)]
    """
    if size < 0 or grain < 1:
        raise ValueError(f"record_pieces: {size} elements by {grain}")
    cdef Py_ssize_t i, count = (size + grain - 1) // grain
    cdef vector[PieceRecord] pieces
    cdef PieceRecords records
    pieces.resize(count)
    records.first = pieces.data()
    records.grain = grain
    records.nanoseconds = 1000 * microseconds
    records.of_workers = 1000 * max(microseconds, worker_microseconds)
    records.caller = this_thread()
    with nogil:  # only `pieces` is touched, which lives until the end
        parallel_for(size, grain, record_piece, &records)
    found = []
    for i in range(count):
        found.append((pieces[i].start, pieces[i].end, pieces[i].thread))
    return found


# --- Where a thread runs, for tests of its placement --------------------------------------------------------

cdef extern from *:
    """
    #if defined(__linux__)
    static int core_after_leaving(int core) {
        disposescope::kernels::move_from(core, pthread_self());
        return disposescope::kernels::current_core();
    }
    #else
    static int core_after_leaving(int) { return disposescope::kernels::current_core(); }
    #endif
    """
    int core_after_leaving(int core) noexcept


def leave_core(int core):
    """Move the calling thread from this core, if it is there and may use others; return on which one it is.

    Negative where that is unknown, as it is on all systems but Linux.
    """
    return core_after_leaving(core)
