"""Where kernels run: in contexts (`contextvars`) of their own: NumPy's warnings off, our allocator on.

Both are settings of the context: NumPy's error state since 2.0, and its allocation hook (NEP 49). To enter a
context that was made before is 30 ns, to set them and back 500. Code that runs in one sees no dispose scope
and no recording mode of its caller, so kernels take arrays and give arrays.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject

from tensor.memory.allocator cimport enter_pool

from contextvars import Context

import numpy as np

from tensor.memory.limits import OutOfMemoryError, out_of_memory

cdef extern from "Python.h":
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

# Those that nobody is in, of each kind: a context can be entered once at a time. As many are made as threads
# need at once; beyond MOST they are let go of. A list would grow and shrink with each op, which is 100 ns.
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
        Py_DECREF(context)  # the stack's reference
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
    """Return ``kernel(*arguments, **options)``, run where kernels run.

    Raises
    ------
    OutOfMemoryError
        If there is no memory for a result, instead of NumPy's own ``MemoryError``.
    """
    context = enter(True)
    try:
        return kernel(*arguments, **options)
    except OutOfMemoryError:
        raise
    except MemoryError:
        pass  # not the context of our error: its traceback would hold arrays
    finally:
        leave(context, True)
    raise out_of_memory()


cdef class in_kernels:
    """Let the block run where kernels run: ``with in_kernels(): ...``, no ``yield`` or ``await`` inside."""

    cdef object _context

    def __enter__(self):
        self._context = enter(True)

    def __exit__(self, kind, error, traceback):
        context, self._context = self._context, None
        leave(context, True)
        if isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError):
            raise out_of_memory() from None
