# cython: language_level=3, auto_pickle=False
"""Find disposables in lists, dicts, modules, and attributes of other objects.

A search runs no code of users' classes but ``__disposables__`` and the functions of `add_container`. It reads
the items of built-in containers directly, iterates over collections that are written in C and over views of
mappings, and reads the attributes of all other objects, also of collections: a progress bar is a collection,
which prints while it is iterated over.

A search asks for the class of an object with ``type(x)``. `isinstance` also asks for ``x.__class__``, which a
lazy proxy, such as a user of Django's requests, answers with a query of its database.
"""

from cpython.buffer cimport PyObject_CheckBuffer
from cpython.object cimport PyObject, PyObject_GenericGetDict, PyTypeObject

import warnings
from collections import deque
from collections.abc import Collection, ItemsView, Iterator, KeysView, Mapping, ValuesView
from enum import Enum
from gc import get_referents
from types import (
    BuiltinFunctionType, FunctionType, GeneratorType, MappingProxyType, MethodDescriptorType, MethodType,
    ModuleType, SimpleNamespace, WrapperDescriptorType
)

cdef extern from "Python.h":
    PyTypeObject* Py_TYPE(object x)
    bint PyType_IsSubtype(PyTypeObject* kind, PyTypeObject* base)

cdef extern from *:
    """
    // Returns whether a class may have an attribute. If not, `getattr` would take 2,000 instructions to raise
    // an error. A metaclass with a `__getattr__` may have any attribute.
    static int scopes_may_have(PyObject* kind, PyObject* name) {
        PyTypeObject* metaclass = Py_TYPE(kind);
        return metaclass->tp_getattro != PyType_Type.tp_getattro
            || _PyType_Lookup((PyTypeObject*)kind, name) != NULL || _PyType_Lookup(metaclass, name) != NULL;
    }
    """
    bint scopes_may_have(PyObject* kind, PyObject* name)

# The base class of disposables; see `know_disposables`.
cdef type _disposable_base = type(None)

# The types of most values in a training step. They hold no disposables, so the search skips them at once.
cdef frozenset _PLAIN = frozenset({int, float, complex, bool, str, bytes, bytearray, type(None)})

# Containers without attributes.
cdef frozenset _CONTAINERS = frozenset({dict, set, frozenset, deque})
# Views of mappings that are written in Python. Users pass them to have the mapping iterated over.
cdef frozenset _VIEWS = frozenset({ItemsView, KeysView, ValuesView})
# The types of methods that are written in C.
cdef frozenset _METHODS_IN_C = frozenset({MethodDescriptorType, WrapperDescriptorType})

# Maps classes of other libraries to functions that return the objects in an instance; see `add_container`.
cdef dict _holders = {}
# Pairs of functions: whether an object holds others, and which; see `add_virtual_container`.
cdef list _virtual_containers = []


def know_disposables(type base):
    """Take instances of `base` for disposables that hold no other ones."""
    global _disposable_base
    _disposable_base = base


cdef bint _is_of_base(x) noexcept:
    return PyType_IsSubtype(Py_TYPE(x), <PyTypeObject*>_disposable_base)


def add_container(kind, held):
    """Search instances of `kind` too: ``held(x)`` returns the objects in them."""
    _holders[kind] = held


def add_virtual_container(is_container, held):
    """Search the objects for which ``is_container(x)`` is True: ``held(x)`` returns the objects in them."""
    _virtual_containers.append((is_container, held))


cdef object _holder_of(x):
    """Return the function that returns the objects in `x`, or None."""
    kind = type(x)
    for holder in _holders:
        if issubclass(kind, holder):
            return _holders[holder]
    for is_container, held in _virtual_containers:
        if is_container(x):
            return held
    return None


cdef bint _is_proxy(kind) except -1:
    """Return whether instances of `kind` claim to be of another class: lazy proxies, and mocks."""
    for base in kind.__mro__:
        if base is not object and "__class__" in vars(base):
            return True
    return False


cdef object _attribute_of(kind, str name):
    """Return an attribute of a class, or None."""
    return getattr(kind, name, None) if scopes_may_have(<PyObject*>kind, <PyObject*>name) else None


cdef bint _has_attribute(kind, str name) except -1:
    return scopes_may_have(<PyObject*>kind, <PyObject*>name) and hasattr(kind, name)


cpdef bint is_disposable(x):
    """Return whether instances of `x`'s class have ``dispose()``; a class itself is no disposable."""
    return _is_of_base(x) or callable(_attribute_of(type(x), "dispose"))


cpdef bint is_closable(x):
    """Return whether instances of `x`'s class have ``close()``."""
    return callable(_attribute_of(type(x), "close"))


# Types whose attributes are not searched.
cdef tuple _CLOSED = (
    type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, GeneratorType, Iterator, BaseException,
    Enum,
)
# The most objects in attributes that one search visits.
cdef Py_ssize_t _MAX_OBJECTS = 100_000

_TOO_MANY = (
    "found more than {:,} objects in the attributes of this {}, and did not look further: pass the "
    "tensors themselves, in a list or a dict"
)
_NO_TENSOR = (
    "{call}() found no tensor, and nothing else that a scope may own, in this {kind}. The scope looks into "
    "containers and attributes. If another object holds the tensors, pass that, or the tensors themselves: "
    "scope.{call}([x, y])"
)


class _Slotted:
    __slots__ = ("x",)


cdef object _slot = type(_Slotted.x)
# Classes whose `__iter__` reads the items of a container without running code of its subclass.
cdef tuple _iterables = (list, tuple, set, frozenset, deque)


cdef list items_of(x):
    if isinstance(x, dict):
        return list(dict.values(x))
    for kind in _iterables:
        if issubclass(type(x), kind):
            return list(kind.__iter__(x))
    return []


cdef list _items_and_keys_of(x):
    """Return the items of a built-in container, also the keys of a dict. No code of subclasses runs."""
    cdef list found = []
    if not isinstance(x, dict):
        return items_of(x)
    for item in dict.items(x):
        found += item
    return found


cdef object dict_of(x):
    try:
        return PyObject_GenericGetDict(x, NULL)
    except AttributeError:
        return None


cdef list slots_of(kind):
    return [inner for base in kind.__mro__ for inner in vars(base).values() if type(inner) is _slot]


cdef object slot_of(descriptor, x):
    try:
        return descriptor.__get__(x)
    except AttributeError:
        return None


cdef list _attributes_of(x):
    """Return the values of the attributes of `x`, without running code of its class."""
    cdef list found = []
    held = dict_of(x)
    if held is not None:
        found += (<dict>held).values()
    for descriptor in slots_of(type(x)):
        found.append(slot_of(descriptor, x))
    return found


cpdef list find(objects, wanted, bint inside):
    """Return all objects `x` with ``wanted(x)`` in nested containers and objects, each once, in order.

    With `inside`, also search the found objects: a module returns its disposables, or containers of them, by
    ``__disposables__()``. The search uses no recursion and skips seen objects, so depth and cycles do not
    matter.

    Raises
    ------
    TypeError
        For an iterator in `objects` or in their containers, because the search would exhaust it.
    """
    cdef _Search search = _Search.__new__(_Search)
    return search.run(list(objects), wanted, inside)


cdef list find_in(tuple objects, wanted, bint inside, call):
    cdef list found = [], part
    cdef set seen = set()
    cdef _Search search
    if call is None:
        return find(objects, wanted, inside)
    for x in objects:
        search = _Search.__new__(_Search)
        part = search.run([x], wanted, inside)
        if not part and _is_opaque(x):
            warnings.warn(_NO_TENSOR.format(call=call, kind=type(x).__name__), UserWarning, stacklevel=1)
        for y in part:
            if id(y) not in seen:
                seen.add(id(y))
                found.append(y)
    return found


cdef bint _is_opaque(x):
    """Return whether an empty search of `x` warns; False for plain containers, classes and arrays."""
    kind = type(x)
    return not (
        kind.__module__ in ("builtins", "collections")
        or issubclass(kind, (tuple, type, Enum))
        or _holder_of(x) is not None
        or _is_array(x)
    )


cdef class _Search:
    """One search in containers, and in attributes of other objects."""

    # The objects to look at next.
    cdef list stack
    # The number of objects found in attributes.
    cdef Py_ssize_t count
    # The size of the stack when the search entered the attributes of an object; -1 outside of attributes.
    cdef Py_ssize_t outside
    # The class of that object.
    cdef type kind

    cdef list run(self, list objects, wanted, bint inside):
        cdef list found = []
        # Keeps seen objects alive: the id of a temporary container could be used again.
        cdef dict seen = {}
        cdef list held
        self.stack, self.outside = objects, -1
        objects.reverse()
        while self.stack:
            x = self.stack.pop()
            if len(self.stack) < self.outside:
                self.outside = -1
            if type(x) in _PLAIN or id(x) in seen:
                continue
            seen[id(x)] = x
            if type(x) is GeneratorType and self.outside < 0:  # it has close(), but the user means its items
                _refuse(x)
            if wanted(x):
                found.append(x)
                if not inside:
                    continue
                held = _held_by_disposable(x)
            else:
                held = self.held_in(x)
            if held is not None:
                held.reverse()
                self.stack += held
        return found

    cdef list held_in(self, x):
        """Return the objects in `x` as a new list, or None if there are none."""
        if self.outside < 0:
            held = _held(x)
            if held is not None:
                return held
        else:
            tell = _attribute_of(type(x), "__disposables__")
            if tell is not None:
                return list(tell(x))
        if issubclass(type(x), _CLOSED) or _is_array(x):
            return None
        if self.outside < 0:
            self.outside, self.kind = len(self.stack), type(x)
        held = items_of(x) + _attributes_of(x)
        self.count += len(held)
        if self.count > _MAX_OBJECTS:
            warnings.warn(_TOO_MANY.format(_MAX_OBJECTS, self.kind.__name__), UserWarning, stacklevel=1)
            self.stack, self.outside = [], -1
            return None
        return held


cdef list _held_by_disposable(x):
    """Return the objects in the disposable `x` as a new list, or None if there are none."""
    tell = _attribute_of(type(x), "__disposables__")
    if tell is not None:
        return list(tell(x))
    return None if _is_of_base(x) or _is_array(x) else _held(x)


cdef list _held(x):
    """Return the items of the container `x` as a new list, or None if `x` is no container."""
    cdef list held = []
    kind = type(x)
    if kind is list or kind is tuple:
        return list(x)
    tell = _attribute_of(kind, "__disposables__")
    if tell is not None:
        return list(tell(x))
    if _is_of_base(x) or isinstance(x, type):
        return None
    holder = _holder_of(x)
    if holder is not None:
        return list(holder(x))
    if _is_array(x) or _is_proxy(kind):
        return None
    is_plain = issubclass(kind, SimpleNamespace) or _has_attribute(kind, "__dataclass_fields__")
    if is_plain or _is_estimator(kind):
        held = items_of(x)
    elif issubclass(kind, dict) or issubclass(kind, _iterables):
        held = _items_and_keys_of(x)
    elif issubclass(kind, (str, range)):
        return None
    elif issubclass(kind, Collection):
        return _held_by_collection(x, kind)
    elif issubclass(kind, Iterator) and not is_closable(x):
        _refuse(x)
    else:
        return None
    # A subclass of a container may have attributes.
    return held if kind in _CONTAINERS else held + _attributes_of(x)


cdef list _held_by_collection(x, kind):
    """Return the items of a collection that is written in C, or the attributes of another one."""
    cdef list held = []
    is_mapping = issubclass(kind, Mapping)
    if kind is MappingProxyType:
        return get_referents(x)  # its mapping, whose methods may be written in Python
    if kind in _VIEWS or _is_in_c(kind, "items" if is_mapping else "__iter__"):
        try:
            if is_mapping:
                for item in x.items():
                    held += item
            else:
                held = list(x)
        except (AttributeError, NotImplementedError, TypeError):
            held = []  # not iterable now
        return held if kind in _VIEWS else held + _attributes_of(x)
    # A collection may have an iterator for later, such as the progress bar of a generator.
    return [y for y in _attributes_of(x) if not issubclass(type(y), Iterator)]


cdef bint _is_in_c(kind, name) except -1:
    """Return whether the method `name` of a class is written in C."""
    for base in kind.__mro__:
        if name in vars(base):
            return type(vars(base)[name]) in _METHODS_IN_C
    return False


cdef bint _is_estimator(kind):
    """Return whether a class has the methods of a scikit-learn estimator. These store state in attributes."""
    return callable(_attribute_of(kind, "get_params")) and callable(_attribute_of(kind, "set_params"))


cdef bint _is_array(x):
    """Return whether `x` is a collection of plain values: bytes, a buffer, an array of another library."""
    return PyObject_CheckBuffer(x) or _has_attribute(type(x), "__array__")


cdef int _refuse(x) except -1:
    raise TypeError(
        f"a {type(x).__name__} yields its items only once, so a search for disposables would use it up: "
        "write list(...) around it, keep the list, and pass that"
    )
