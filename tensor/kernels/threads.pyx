"""The thread pool of all kernels, and its settings."""

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
    # Begin large pieces at a cache line, if the array does.
    return even if even < 1024 else (even + 63) // 64 * 64


def set_num_threads(n):
    """Set the number of threads for large arrays, 1 to 256. With 1, only the calling thread computes.

    Results have the same bits for any number. The libraries below NumPy (BLAS) have their own threads and
    settings; ``threadpoolctl.threadpool_limits`` sets their threads and those of this pool.

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
        raise ValueError(f"set_num_threads: at least 1 thread is needed, not {n}: 1 is the calling thread")
    if n > most_threads:
        raise ValueError(f"set_num_threads: at most {most_threads} threads are possible, not {n}")
    thread_count.store(n)


def get_num_threads():
    """Return the number of threads that compute on large arrays.

    The default is the number of cores that the process may use, at most 16, or the environment variable
    ``OMP_NUM_THREADS``.

    Examples
    --------
    >>> import tensor
    >>> tensor.get_num_threads() >= 1
    True
    """
    return thread_count.load()


def configure_threads(*, awake_microseconds=None):
    """Set how long an idle thread stays awake. Arguments that are not given keep their value.

    A sleeping thread starts 45 to 100 microseconds late. A thread that is awake uses a core: it polls for
    work, and yields the core to other threads in between. The default is 100 microseconds, or the environment
    variable ``DISPOSESCOPE_AWAKE_MICROSECONDS``.

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
            f"configure_threads: awake_microseconds must be a number, not {type(awake_microseconds).__name__}"
        )
    if not 0 <= awake_microseconds <= LONGEST:
        raise ValueError(
            f"configure_threads: awake_microseconds must be from 0 to {LONGEST}, not {awake_microseconds!r}"
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
    # More threads would not increase the memory bandwidth much.
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

    /* threadpoolctl finds this library among the loaded ones by this name. */
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
    """Let ``threadpoolctl.threadpool_limits`` set this pool's threads too."""
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


# Register on import of threadpoolctl, because importing it here takes 4 ms.
when_imported("threadpoolctl", _register_at)


# --- The thread of each piece, for tests of the pool --------------------------------------------------------

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
    """Return ``(start, end, thread)`` of each piece of `parallel_for`, where a piece takes `microseconds`.

    A worker's piece takes `worker_microseconds` if that is longer.

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
    with nogil:  # `pieces` exists until the end
        parallel_for(size, grain, record_piece, &records)
    found = []
    for i in range(count):
        found.append((pieces[i].start, pieces[i].end, pieces[i].thread))
    return found


# --- The core of a thread, for tests of its placement -------------------------------------------------------

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
    """Move the calling thread away from `core`, if it runs there and may use others. Return its core.

    The result is negative if the core is unknown, as on all systems but Linux.
    """
    return core_after_leaving(core)
