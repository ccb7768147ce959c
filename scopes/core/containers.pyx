# cython: language_level=3, auto_pickle=False
"""Finding disposables inside lists, dicts, dataclasses, modules, estimators."""

from cpython.buffer cimport PyObject_CheckBuffer

from scopes.core.disposable cimport Disposable

from collections.abc import Collection, Iterator, Mapping
from types import GeneratorType, SimpleNamespace

# Most of what is passed along in a training step: holds nothing, and needs no look at its class.
cdef frozenset _PLAIN = frozenset({int, float, complex, bool, str, bytes, bytearray, type(None)})

# Classes of other libraries whose instances hold some, and functions that return what one holds.
cdef dict _holders = {}


def add_holder(kind, held):
    """Look, from now on, through instances of `kind` too: through what ``held(x)`` returns."""
    _holders[kind] = held


cpdef bint is_disposable(x):
    """Tell whether instances of `x`'s class have ``dispose()``; a class itself is no disposable."""
    return isinstance(x, Disposable) or callable(getattr(type(x), "dispose", None))


cpdef bint is_closable(x):
    """Tell whether instances of `x`'s class have ``close()``."""
    return callable(getattr(type(x), "close", None))


cpdef list find(objects, wanted, bint inside):
    """Return all that is `wanted` in any nesting of containers, each once, in order.

    With `inside`, what a found object holds itself is looked through too: a module tells that by
    ``__disposables__()``, which returns disposables, or containers of them. The walk keeps its own stack, so
    that neither depth nor cycles matter.

    Raises
    ------
    TypeError
        For an iterator, which the walk would use up.
    """
    cdef list found = []
    # Holds what it has seen: a container made on the fly would leave its id to the next one.
    cdef dict seen = {}
    cdef list stack = list(objects)
    cdef list held
    stack.reverse()
    while stack:
        x = stack.pop()
        if type(x) in _PLAIN or id(x) in seen:
            continue
        seen[id(x)] = x
        if type(x) is GeneratorType:  # it has close(), and is meant as the items that it gives
            _refuse(x)
        if wanted(x):
            found.append(x)
            if not inside:
                continue
        held = _held(x)
        if held is not None:
            held.reverse()
            stack += held
    return found


cdef list _held(x):
    """Return a new list of what `x` holds; None if it is no container."""
    cdef list held = []
    kind = type(x)
    if kind is list or kind is tuple:
        return list(x)
    tell = getattr(kind, "__disposables__", None)
    if tell is not None:
        return list(tell(x))
    if isinstance(x, (Disposable, type)):
        return None
    for holder in _holders:
        if isinstance(x, holder):
            return list(_holders[holder](x))
    if _is_array(x):
        return None
    if isinstance(x, Mapping):
        for item in x.items():
            held += item
        return held
    if isinstance(x, SimpleNamespace):
        return list(vars(x).values())
    import dataclasses  # here, since it takes a millisecond to load, and few programs come here

    if dataclasses.is_dataclass(x):
        for field in dataclasses.fields(x):
            held.append(getattr(x, field.name, None))
        return held
    if _is_estimator(kind):
        return list(getattr(x, "__dict__", {}).values())
    if isinstance(x, Collection):
        return None if isinstance(x, (str, range)) else list(x)
    if isinstance(x, Iterator) and not is_closable(x):
        _refuse(x)
    return None


cdef bint _is_estimator(kind):
    """Tell whether a class says, by scikit-learn's two methods, that its instances are their attributes."""
    return callable(getattr(kind, "get_params", None)) and callable(getattr(kind, "set_params", None))


cdef bint _is_array(x):
    """Tell whether `x` is a collection of plain values: bytes, a buffer, an array of another library."""
    return PyObject_CheckBuffer(x) or hasattr(type(x), "__array__")


cdef int _refuse(x) except -1:
    raise TypeError(
        f"a {type(x).__name__} gives its items once, so that looking for disposables would use it up: "
        "write list(...) around it, keep the list, and pass that"
    )
