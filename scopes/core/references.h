// Take a reference to an object that may be about to go.
#pragma once

#include <Python.h>

static inline int scopes_try_incref(PyObject *x)
{
#if PY_VERSION_HEX >= 0x030E0000
    return PyUnstable_TryIncRef(x);
#else
    /* What weak references do: under the GIL, a count of 0 says that the deallocation has begun. */
    if (Py_REFCNT(x) <= 0) {
        return 0;
    }
    Py_INCREF(x);
    return 1;
#endif
}

static inline void scopes_enable_try_incref(PyObject *x)
{
#if PY_VERSION_HEX >= 0x030E0000
    PyUnstable_EnableTryIncRef(x);
#else
    (void)x;
#endif
}
