# The interface of the allocator for other compiled modules.
#
# Each array's memory is counted in exactly one place. The allocator counts its own large blocks (`is_counted`
# returns True). All other arrays are small ones from the allocator, or arrays of any size from NumPy's own
# allocator. The object that holds such an array calls `count_small` and `uncount_small`.

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
# NumPy stores the allocator in the current context (contextvars): enter and leave in one function, without
# `await` or `yield` in between. Allocations of at least `min_pooled_bytes` then come from the pool.

cdef object enter_pool()
cdef int leave_pool(object previous) except -1

# Whether a result of this size would come from the pool. For smaller ones, entering the pool costs more than
# it saves.
cpdef bint is_worth_pooling(Py_ssize_t nbytes) noexcept nogil

# Whether the allocator counts the block of this array. False for views, which do not own their data.
cpdef bint is_counted(cnp.ndarray owner) noexcept

# --- Buffers that the allocator does not count --------------------------------------------------------------

# Count a new buffer as live. Return False, and count nothing, if it would exceed the limit even after
# trimming the pool and collecting garbage; the caller then raises what `out_of_memory()` returns.
# Runs Python code (budgets and the garbage collector) only if a limit is set.
cpdef bint count_small(Py_ssize_t nbytes) noexcept

# Count a buffer as freed; `is_pinned` is its state after the last `pin` or `unpin`. Safe in __dealloc__.
cpdef void uncount_small(Py_ssize_t nbytes, bint is_pinned) noexcept nogil

# --- Pinned: used only by code outside the library ----------------------------------------------------------

# Change the buffer of `owner` from live to pinned, and back. For blocks of the allocator a second call does
# nothing, and freeing the block uncounts it. For other buffers the caller stores the state.
cpdef void pin(cnp.ndarray owner, Py_ssize_t nbytes) noexcept
cpdef void unpin(cnp.ndarray owner, Py_ssize_t nbytes) noexcept

# --- External memory, donations, overhead -------------------------------------------------------------------

cpdef void borrow(Py_ssize_t nbytes) noexcept nogil
cpdef void return_borrowed(Py_ssize_t nbytes) noexcept nogil
cpdef void count_donation(bint is_reused) noexcept nogil

# Let `bytes_overhead` include the result of `function`: the bytes of objects (tensors, buffers, nodes). It
# runs only when the statistics are read.
ctypedef int64_t (*overhead_function)() noexcept nogil
cdef int report_overhead_by(overhead_function function) except -1

# Whether a `memory.budget` is open. It can free memory when an allocation would be refused.
cdef bint has_relief() noexcept

# --- Arrays from the allocator ------------------------------------------------------------------------------

# Like NumPy's functions. Large arrays come from the pool, small ones from NumPy (see `is_counted`). Raise
# MemoryError if the allocator refuses.
cpdef cnp.ndarray empty(tuple shape, object dtype, object like=*)
cpdef cnp.ndarray zeros(tuple shape, object dtype)
cpdef cnp.ndarray copy(cnp.ndarray array)
