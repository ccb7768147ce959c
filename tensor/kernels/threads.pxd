"""The thread pool of all kernels. For `cimport`."""

# Call ``body(context, start, end)`` for all of ``range(size)``, in pieces of `grain` elements (the last one
# may be smaller), on several threads. The order and the thread of a piece are not defined, but pieces begin
# at multiples of `grain`. So a reduction that sums pieces first, and then these sums in order, gives the same
# result for any number of threads. When the call returns, all pieces are done and their writes are visible.
#
# Call it without the GIL. `body` must not take a lock that a caller may hold, or call Python. If another
# thread uses the pool, or inside of a `body`, the caller runs all pieces itself.
#
# A piece should take 5 us or more, because taking one costs about 20 ns, and waking a worker about 4 us. A
# single piece starts no worker.
cdef void parallel_for(
    Py_ssize_t size,
    Py_ssize_t grain,
    void (*body)(void* context, Py_ssize_t start, Py_ssize_t end) noexcept nogil,
    void* context,
) noexcept nogil

# Return a grain of at most `grain`, rounded up to 64, so that threads have equally many pieces. With 32,768,
# one of two threads would get 65,536 of 100,000 elements. Only for results that do not depend on the pieces.
cdef Py_ssize_t even_grain(Py_ssize_t size, Py_ssize_t grain) noexcept nogil
