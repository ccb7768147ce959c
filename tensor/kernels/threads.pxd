"""The pool of threads that all kernels share. For `cimport`."""

# Calls ``body(context, start, end)`` for all of ``range(size)``, in pieces of `grain` elements (the last one
# is what is left), on several threads at once. In which order, and by whom, is open; where the pieces begin
# depends on `size` and `grain` alone, so a reduction that adds up pieces first, and then their sums in order,
# gives the same for any number of threads. All is done when it returns, and all that was written is seen.
#
# To be called without the GIL. `body` takes no lock that a caller may hold, and calls no Python. If another
# thread uses the pool, the caller does all pieces itself; so it does inside of a `body`.
#
# A piece should take 5 us or more, since to take one is some 20 ns and to wake a worker some 4 us: then one
# piece alone is never cut, and starts nobody.
cdef void parallel_for(
    Py_ssize_t size,
    Py_ssize_t grain,
    void (*body)(void* context, Py_ssize_t start, Py_ssize_t end) noexcept nogil,
    void* context,
) noexcept nogil

# Return `grain`, or less: so much that each thread has as many pieces as the others. With pieces of 32,768,
# one of two threads would have 65,536 of 100,000 elements. For results that do not depend on where pieces
# begin.
cdef Py_ssize_t even_grain(Py_ssize_t size, Py_ssize_t grain) noexcept nogil
