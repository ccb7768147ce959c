// Refuses subinterpreters. The modules written in Cython have one state for the process. They would refuse the second
// interpreter that imports them, even if that is the main one. This module has no state, and is imported first.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static int refuse_subinterpreters(PyObject *)
{
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) {
        return 0;
    }
    PyErr_SetString(
        PyExc_ImportError,
        "disposescope can't be imported in a subinterpreter, because its statistics and its memory pool exist once for a "
        "process: import it in the main interpreter, and use threads or processes. With mod_wsgi, write "
        "WSGIApplicationGroup %{GLOBAL}");
    return -1;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void *>(refuse_subinterpreters)},
#if PY_VERSION_HEX >= 0x030C0000
    // Without this slot Python raises its own error first, which does not say what to do.
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#if PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "main_interpreter", "Refuses to be imported in a subinterpreter.", 0, nullptr, slots,
    nullptr, nullptr, nullptr,
};

PyMODINIT_FUNC PyInit_main_interpreter(void)
{
    return PyModuleDef_Init(&module);
}
