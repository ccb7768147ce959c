"""How kernels run: on the thread pool, for an instruction set, in a kernel context, in pieces of an array."""

cimport cython
cimport numpy as cnp
from cpython.ref cimport PyObject, Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t
from libcpp.atomic cimport atomic
from libcpp.vector cimport vector

from tensor.memory.allocator cimport enter_pool, is_worth_pooling, leave_pool

import os
from contextvars import Context

import numpy as np

from scopes._shared.on_demand import when_imported
from tensor.memory.out_of_memory import OutOfMemoryError, out_of_memory

cnp.import_array()


# --- The thread pool ----------------------------------------------------------------------------------------
#
# The thread pool of all kernels, and its settings.

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
    >>> from tensor.kernels.running import configure_threads
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
        "filename_prefixes": ("running.",),
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


# --- Instruction sets ---------------------------------------------------------------------------------------
#
# The instruction set of kernels: the best of the processor, or a lower one that the user selects.

cdef extern from *:
    """
    #if defined(DISPOSESCOPE_HAS_AVX2) && defined(_MSC_VER) && !defined(__clang__)
    #include <intrin.h>

    /* Whether the processor has the instructions, and the system saves the registers. */
    static int best_level(void) {
        int r[4];
        __cpuid(r, 0);
        if (r[0] < 7) return 0;
        __cpuid(r, 1);
        const bool has_fma = (r[2] >> 12) & 1, has_xsave = (r[2] >> 27) & 1;
        if (!has_fma || !has_xsave) return 0;
        const unsigned long long saved = _xgetbv(0);
        __cpuidex(r, 7, 0);
        const unsigned b = (unsigned)r[1];
        const bool has_avx2 = (b >> 5) & 1, has_bmi2 = (b >> 8) & 1;
        if (!has_avx2 || !has_bmi2 || (saved & 0x6) != 0x6) return 0;
        const bool has_avx512 = (b >> 16) & (b >> 17) & (b >> 28) & (b >> 30) & (b >> 31) & 1;
        return has_avx512 && (saved & 0xe6) == 0xe6 ? 2 : 1;
    }
    #elif defined(DISPOSESCOPE_HAS_AVX2)
    static int best_level(void) {
        __builtin_cpu_init();
        if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
        if (!__builtin_cpu_supports("bmi") || !__builtin_cpu_supports("bmi2")) return 0;
    #if defined(DISPOSESCOPE_HAS_AVX512)
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq")
            && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")
            && __builtin_cpu_supports("avx512cd")) return 2;
    #endif
        return 1;
    }
    #else
    static int best_level(void) { return 0; }
    #endif
    """
    int best_level() noexcept

_NAMES = ("baseline", "avx2", "avx512")


cdef int _chosen_level() except -1:
    wanted = os.environ.get("DISPOSESCOPE_SIMD", "")
    if not wanted:
        return best_level()
    if wanted not in _NAMES:
        raise ImportError(f"DISPOSESCOPE_SIMD must be one of {', '.join(_NAMES)}, or not set; not {wanted!r}")
    return min(_NAMES.index(wanted), best_level())


simd_level = _chosen_level()


def instruction_set():
    """Return the instruction set that kernels use: "baseline", "avx2" or "avx512".

    By default it is the best one of the processor. The environment variable ``DISPOSESCOPE_SIMD``, read when
    `tensor` is imported, selects a lower one, for tests.
    """
    return _NAMES[simd_level]


def best_instruction_set():
    """Return the best instruction set that this build and the processor support."""
    return _NAMES[best_level()]


# --- Kernel contexts ----------------------------------------------------------------------------------------
#
# Kernel contexts: contexts (`contextvars`) in which NumPy does not warn, and allocates from the pool.
#
# Both settings belong to the context: NumPy's error state since 2.0, and its allocation hook (NEP 49).
# Entering an existing context takes 30 ns, while changing and restoring the settings takes 500 ns. The
# dispose scope and recording mode of the caller do not apply in a kernel context, so kernels take and
# return arrays.

cdef extern from "Python.h":
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

# The unused contexts without and with the pool. A context can be entered only once at a time, so kernels that
# run at the same time need several. Unused contexts beyond MOST are freed. The arrays have a fixed size,
# because changing the size of a list takes 100 ns for each op.
cdef enum:
    MOST = 64

cdef PyObject* _free[2][MOST]
cdef int _count[2]


def _hook() -> None:
    enter_pool()


cdef object _new_context(bint pooled):
    context = Context()
    context.run(np.seterr, all="ignore")
    if pooled:
        context.run(_hook)
    return context


cdef object enter(bint pooled):
    cdef PyObject* found
    if _count[pooled] > 0:
        _count[pooled] -= 1
        found = _free[pooled][_count[pooled]]
        context = <object>found
        Py_DECREF(context)  # the reference of `_free`
    else:
        context = _new_context(pooled)
    PyContext_Enter(context)
    return context


cdef int leave(object context, bint pooled) except -1:
    PyContext_Exit(context)
    if _count[pooled] < MOST:
        Py_INCREF(context)
        _free[pooled][_count[pooled]] = <PyObject*>context
        _count[pooled] += 1
    return 0


def run_kernel(kernel, /, *arguments, **options):
    """Return ``kernel(*arguments, **options)``, run in a kernel context.

    Raises
    ------
    OutOfMemoryError
        If there is no memory for a result, instead of NumPy's ``MemoryError``.
    """
    context = enter(True)
    try:
        return kernel(*arguments, **options)
    except OutOfMemoryError:
        raise
    except MemoryError:
        pass  # raise the error below, without this one as context: its traceback would keep arrays alive
    finally:
        leave(context, True)
    raise out_of_memory()


cdef class in_kernels:
    """Run a block in a kernel context: ``with in_kernels(): ...``. The block must not yield or await."""

    cdef object _context

    def __enter__(self):
        self._context = enter(True)

    def __exit__(self, kind, error, traceback):
        context, self._context = self._context, None
        leave(context, True)
        if isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError):
            raise out_of_memory() from None


# --- Arrays along axes --------------------------------------------------------------------------------------
#
# Functions for kernels along axes: shapes as an `Axis`, new arrays, and runs on threads.

cdef extern from "tensor/kernels/axes.h" namespace "disposescope::kernels" nogil:
    cdef struct Cut:
        Py_ssize_t units
        Py_ssize_t grain
    Cut cut_of(Axis axis, Py_ssize_t itemsize, Py_ssize_t elements)


cdef int kind_of(cnp.ndarray a) noexcept:
    cdef int typenum = cnp.PyArray_TYPE(a)
    if not cnp.PyArray_ISCARRAY_RO(a):
        return -1
    return 0 if typenum == cnp.NPY_FLOAT else 1 if typenum == cnp.NPY_DOUBLE else -1


cdef Axis one_axis(cnp.ndarray a, int axis) noexcept:
    return _joined(a, axis, axis + 1)


cdef Axis _joined(cnp.ndarray a, int first, int end) noexcept:
    """Return the dimensions from `first` to `end` as one axis."""
    cdef Axis found = Axis(1, 1, 1)
    cdef int i
    for i in range(first):
        found.before *= cnp.PyArray_DIM(a, i)
    for i in range(first, end):
        found.length *= cnp.PyArray_DIM(a, i)
    for i in range(end, cnp.PyArray_NDIM(a)):
        found.behind *= cnp.PyArray_DIM(a, i)
    return found


cdef Axis some_axes(cnp.ndarray a, object axis) except *:
    cdef Axis found
    cdef int first, end
    if axis is None:
        return _joined(a, 0, cnp.PyArray_NDIM(a))
    if isinstance(axis, int):
        return _joined(a, axis, <int>axis + 1)
    if axis:
        first, end = min(axis), <int>max(axis) + 1
        if end - first == len(axis):
            return _joined(a, first, end)
    found.before = found.behind = 0
    found.length = -1
    return found


cdef cnp.ndarray new_array(int ndim, cnp.npy_intp* shape, int typenum):
    cdef Py_ssize_t nbytes = 8
    cdef int i
    for i in range(ndim):
        nbytes *= shape[i]
    if not is_worth_pooling(nbytes):
        return cnp.PyArray_EMPTY(ndim, shape, typenum, False)
    previous = enter_pool()
    try:
        return cnp.PyArray_EMPTY(ndim, shape, typenum, False)
    finally:
        leave_pool(previous)


cdef cnp.ndarray new_like(cnp.ndarray a):
    return new_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a), cnp.PyArray_TYPE(a))


cdef cnp.ndarray new_reduced(cnp.ndarray a, object axis, bint keepdims, int typenum):
    cdef cnp.npy_intp shape[64]  # the maximum number of dimensions
    cdef int i, ndim = 0, only = -1
    if isinstance(axis, int):
        only = axis
    for i in range(cnp.PyArray_NDIM(a)):
        if i == only or axis is None or (only < 0 and i in <tuple>axis):
            if keepdims:
                shape[ndim] = 1
                ndim += 1
        else:
            shape[ndim] = cnp.PyArray_DIM(a, i)
            ndim += 1
    return new_array(ndim, shape, typenum)


# From this many bytes on, release the GIL, which takes about 50 ns.
cdef Py_ssize_t _LONG = 1 << 15


cdef int run_units(
    Kernel kernel, void* work, Py_ssize_t units, Py_ssize_t grain, Py_ssize_t nbytes
) except -1:
    if nbytes < _LONG and units <= grain:
        if units > 0:
            kernel(work, 0, units)
        return 0
    with nogil:  # the caller keeps the arrays alive
        parallel_for(units, grain, kernel, work)
    return 0


cdef int run(Kernel kernel, void* work, Axis axis, Py_ssize_t itemsize, Py_ssize_t elements) except -1:
    cdef Cut cut = cut_of(axis, itemsize, elements)
    return run_units(
        kernel, work, cut.units, cut.grain, axis.before * axis.length * axis.behind * itemsize
    )
