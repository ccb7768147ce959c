"""Kernel contexts: contexts (`contextvars`) in which NumPy does not warn, and allocates from the pool.

Both settings belong to the context: NumPy's error state since 2.0, and its allocation hook (NEP 49). Entering
an existing context takes 30 ns, while changing and restoring the settings takes 500 ns. The dispose scope
and recording mode of the caller do not apply in a kernel context, so kernels take and return arrays.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject

from tensor.memory.allocator cimport enter_pool

from contextvars import Context

import numpy as np

from tensor.memory.limits import OutOfMemoryError, out_of_memory

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
