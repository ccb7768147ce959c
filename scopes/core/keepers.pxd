"""Objects that keep what they hold beyond scopes, such as modules: the interface for ``cimport``."""

from cpython.object cimport PyObject

# Whether `x` is an object that a search looks for. It runs no Python code.
ctypedef bint (*Sought)(PyObject* x, void* context) noexcept

# The number of keepers so far. A scope stores it when it opens.
cdef Py_ssize_t keeper_count() noexcept
# Whether a keeper may hold members.
cdef bint is_anything_held() noexcept
# Return the objects with ``is_sought(x, context)`` that the first `older` keepers hold, as pairs of a keeper
# and a list.
cdef list held_by_older(Py_ssize_t older, Sought is_sought, void* context)
