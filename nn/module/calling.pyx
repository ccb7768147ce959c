"""Calls of modules: ``forward``, with the hooks that users have registered before and after it."""

cimport cython
from cpython.object cimport PyObject

from scopes._shared.tracebacks import clear_library_frames
from tensor import TensorDisposedError

cdef extern from "Python.h":
    object PyObject_GenericGetDict(object x, void* context)
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL
    object PyObject_VectorcallMethod(object name, PyObject** arguments, size_t count, PyObject* names)

cdef enum:
    # A call with more arguments uses the general path.
    MOST = 6


cdef inline bint _is_set(dict own, object module, str name) except -1:
    """Return whether the attribute `name` of `module` is true; `own` is its ``__dict__``."""
    cdef PyObject* found = PyDict_GetItemWithError(own, name)
    if found == NULL:
        return bool(getattr(module, name))  # raises an error that names the missing attribute
    return <object>found is not False and bool(<object>found)


cpdef bint is_plain(object module) except -1:
    """Return whether a call of `module` only calls ``forward``: it has no hooks and is not disposed."""
    cdef dict own = PyObject_GenericGetDict(module, NULL)
    return not (
        _is_set(own, module, "_is_disposed")
        or (_is_set(own, module, "_hooks") and any(module._hooks.values()))
    )


@cython.auto_pickle(False)
cdef class Callable:
    """Base class that makes modules callable. It has no fields: all state is in the module's ``__dict__``."""

    def __call__(self, *args, **kwargs):
        cdef PyObject* arguments[MOST + 2]
        cdef Py_ssize_t i, count = len(args)
        try:
            if not is_plain(self):
                self._raise_if_module_is_disposed()
                return self._call_with_hooks(args, kwargs)
            if kwargs or count > MOST:
                return self.forward(*args, **kwargs)
            arguments[1] = <PyObject*>self
            for i in range(count):
                arguments[i + 2] = <PyObject*>(<tuple>args)[i]
            # The highest bit of the count lets the callee use the slot before the first argument.
            return PyObject_VectorcallMethod(
                "forward", arguments + 1, <size_t>(count + 1) | (<size_t>1 << (8 * sizeof(size_t) - 1)), NULL
            )
        except BaseException as error:
            clear_library_frames(error)  # so that a stored error keeps no operands or results alive
            named = self._named_error(error) if isinstance(error, TensorDisposedError) else None
            if named is None:
                raise
            raise named from None
