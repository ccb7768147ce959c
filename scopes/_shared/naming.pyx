# cython: language_level=3, auto_pickle=False
"""Make public names say where users find them."""

cdef extern from *:
    """
    // A class that C code defines statically has its module in its C name, and no attribute for it.
    static int is_static_class(PyObject* x) {
        return PyType_Check(x) && !(reinterpret_cast<PyTypeObject*>(x)->tp_flags & Py_TPFLAGS_HEAPTYPE);
    }
    // The class refers to `name` from then on.
    static void set_class_name(PyObject* x, const char* name) {
        reinterpret_cast<PyTypeObject*>(x)->tp_name = name;
    }
    """
    bint is_static_class(object x) noexcept
    void set_class_name(object x, const char* name) noexcept

cdef object _module_of_class = type.__dict__["__module__"]

# The names that compiled classes refer to.
cdef list _names = []


def set_module(str module not None):
    """Return a decorator for a public class or function: its ``__module__`` becomes `module`.

    Users import it from there. It may be defined elsewhere. NumPy has the same decorator.
    """
    def decorate(x):
        cdef bytes name
        if is_static_class(x):
            name = f"{module}.{x.__name__}".encode()
            _names.append(name)
            set_class_name(x, name)
        elif isinstance(x, type):
            # Not `x.__module__ = module`: a metaclass has a `__module__` of its own, which would hide this
            # one. From Python 3.13 on, it also forgets the line of the class, which is in another file.
            _module_of_class.__set__(x, module)
        else:
            x.__module__ = module
        return x

    return decorate
