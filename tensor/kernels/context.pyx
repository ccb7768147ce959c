"""Where kernels run: in contexts (`contextvars`) of their own, with NumPy's warnings off and our allocator on.

Both are settings of the context: NumPy's error state since 2.0, and its allocation hook (NEP 49). To enter a context that
was made before is 30 ns, to set them and back 500. Code that runs in one sees no dispose scope and no recording mode of
its caller, so kernels take arrays and give arrays.
"""

from cpython.object cimport PyObject

from tensor.memory.allocator cimport enter_pool

from contextvars import Context

import numpy as np

from tensor.memory.limits import OutOfMemoryError, out_of_memory

cdef extern from "Python.h":
    int PyContext_Enter(object context) except -1
    int PyContext_Exit(object context) except -1

# Those that nobody is in: a context can be entered once at a time. As many are made as threads need at once.
cdef list _silent = []
cdef list _pooled = []


def _hook() -> None:
    enter_pool()


cdef object _new_context(bint pooled):
    context = Context()
    context.run(np.seterr, all="ignore")
    if pooled:
        context.run(_hook)
    return context


cdef object enter(bint pooled):
    cdef list free = _pooled if pooled else _silent
    context = free.pop() if free else _new_context(pooled)
    PyContext_Enter(context)
    return context


cdef int leave(object context, bint pooled) except -1:
    PyContext_Exit(context)
    (_pooled if pooled else _silent).append(context)
    return 0


def run_kernel(kernel, /, *arguments, **options):
    """Return ``kernel(*arguments, **options)``, run where kernels run.

    Raises
    ------
    OutOfMemoryError
        If there is no memory for a result, in place of NumPy's own ``MemoryError``.
    """
    context = enter(True)
    try:
        return kernel(*arguments, **options)
    except OutOfMemoryError:
        raise
    except MemoryError:
        pass  # not as the context of ours: its traceback would hold arrays
    finally:
        leave(context, True)
    raise out_of_memory()


cdef class in_kernels:
    """Let the block run where kernels run: ``with in_kernels(): ...``, without ``yield`` or ``await`` inside."""

    cdef object _context

    def __enter__(self):
        self._context = enter(True)

    def __exit__(self, kind, error, traceback):
        context, self._context = self._context, None
        leave(context, True)
        if isinstance(error, MemoryError) and not isinstance(error, OutOfMemoryError):
            raise out_of_memory() from None
