# What other compiled modules may use of the allocator.
#
# An array's memory is counted in one of two ways, never both: large blocks by the allocator, which hands them
# out (`is_counted` tells); all other buffers by the object that holds them, with `count_small` and
# `uncount_small`: NumPy's own of any size, and small ones made inside the hook.

cimport numpy as cnp
from libc.stdint cimport int64_t

# --- Around a call of a kernel ------------------------------------------------------------------------------
#
#     previous = enter_pool()
#     try:
#         result = np_add(a, b)
#     finally:
#         leave_pool(previous)
#
# The hook belongs to the context (contextvars): enter and leave in one function, without `await` or `yield`
# between. What the kernel allocates meanwhile from `min_pooled_bytes` on comes from the pool.

cdef object enter_pool()
cdef int leave_pool(object previous) except -1

# Whether a result of so many bytes would come from the pool. Below, entering it costs more than it brings.
cpdef bint is_worth_pooling(Py_ssize_t nbytes) noexcept nogil

# Whether the allocator counts the block of this array, which owns its data. False for views.
cpdef bint is_counted(cnp.ndarray owner) noexcept

# --- Buffers that the allocator does not count --------------------------------------------------------------

# Count a new buffer as live. False when it would go over the limit even after the pool was trimmed and
# garbage was collected: nothing is counted then; raise `tensor.memory.limits.out_of_memory()`. Only with a
# limit set can it run Python code (the collector's).
cpdef bint count_small(Py_ssize_t nbytes) noexcept

# Count it no longer; `is_pinned` as it was left by `pin`. Fit for __dealloc__.
cpdef void uncount_small(Py_ssize_t nbytes, bint is_pinned) noexcept nogil

# --- Pinned: seen from outside only -------------------------------------------------------------------------

# Turn the buffer of `owner` from live to pinned, and back. Both may be called twice for a block of the
# allocator, which remembers its state and uncounts itself when it is freed; for other buffers the caller
# remembers.
cpdef void pin(cnp.ndarray owner, Py_ssize_t nbytes) noexcept
cpdef void unpin(cnp.ndarray owner, Py_ssize_t nbytes) noexcept

# --- Memory of others, donations, what objects take ---------------------------------------------------------

cpdef void borrow(Py_ssize_t nbytes) noexcept nogil
cpdef void return_borrowed(Py_ssize_t nbytes) noexcept nogil
cpdef void count_donation(bint is_reused) noexcept nogil

# Let `bytes_overhead` include what `function` returns: the bytes that objects (tensors, buffers, nodes) take
# now. It is called when somebody reads the statistics, so objects need no counting in bytes of their own.
ctypedef int64_t (*overhead_function)() noexcept nogil
cdef int report_overhead_by(overhead_function function) except -1

# Whether a budget is open: memory that is refused may be freed.
cdef bint has_relief() noexcept

# The pool itself, for modules that use more of `pool.h`: each that includes it would have a pool of its own.
cdef void* the_pool() noexcept nogil

# --- Arrays from the allocator ------------------------------------------------------------------------------

# As NumPy's functions; from the pool if large, NumPy's own if small (`is_counted` tells). MemoryError when
# refused.
cpdef cnp.ndarray empty(tuple shape, object dtype, object like=*)
cpdef cnp.ndarray zeros(tuple shape, object dtype)
cpdef cnp.ndarray copy(cnp.ndarray array)
