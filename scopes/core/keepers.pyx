# cython: language_level=3, auto_pickle=False
"""Find the disposables that an older object, a *keeper*, holds when a scope ends. Modules are keepers.

A scope ends what its block made. What a keeper from before the block holds in its attributes, also in lists,
tuples, dicts, sets and deques there, belongs to the keeper: it moves to the outer scope. The result of a
recorded op does not move, because its graph belongs to the block.

Most keepers hold only what they have detached themselves, such as parameters. So the end of a scope looks
only into those that ``note_held`` has marked. If there are none, it costs one comparison.
"""

cimport cython
from cpython.dict cimport PyDict_Check, PyDict_Next, PyDict_Size
from cpython.float cimport PyFloat_Check
from cpython.list cimport PyList_Check, PyList_GET_SIZE
from cpython.long cimport PyLong_Check
from cpython.object cimport PyObject, PyObject_GenericGetDict
from cpython.set cimport PySet_GET_SIZE
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Check
from cpython.weakref cimport PyWeakref_NewRef
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from collections import deque
from types import BuiltinFunctionType, FunctionType

from scopes._shared.naming import set_module

cdef extern from "Python.h":
    # Those of Cython return new references.
    PyObject* PyList_GET_ITEM(object x, Py_ssize_t i)
    PyObject* PyTuple_GET_ITEM(object x, Py_ssize_t i)
    bint PyAnySet_CheckExact(object x)

cdef object _deque = deque

# All keepers by address, and the marked ones.
cdef dict _keepers = {}
cdef dict _marked = {}
# How many keepers were added so far.
cdef Py_ssize_t _count = 0


@cython.final
cdef class _Keeper:
    """Weak reference to one keeper."""

    cdef object reference
    cdef object address
    # The keepers are numbered by age.
    cdef Py_ssize_t number

    def __call__(self, reference):
        """Remove the freed keeper. Its weak reference calls this."""
        self.reference = None  # break the cycle: the reference refers to this
        if _keepers.get(self.address) is self:
            del _keepers[self.address]
            _marked.pop(self.address, None)


@set_module("scopes.lowlevel")
def add_keeper(x):
    """Make `x` a keeper: what it holds in its attributes outlives scopes that begin after this call.

    ``nn.Module`` calls this for each new module. Call ``note_held`` for each new attribute.

    Parameters
    ----------
    x
        An object with a ``__dict__`` and weak references. A second call does nothing.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope
    >>> from scopes.core.keepers import add_keeper, note_held
    >>> class Cache:
    ...     def __init__(self):
    ...         add_keeper(self)
    ...     def __setattr__(self, name, value):
    ...         object.__setattr__(self, name, value)
    ...         note_held(self, value)
    >>> cache = Cache()
    >>> cache.items = []
    >>> with new_dispose_scope():
    ...     cache.items.append(tensor.ones((2,)))
    >>> cache.items[0].tolist()
    [1.0, 1.0]
    """
    global _count
    cdef _Keeper keeper = _Keeper.__new__(_Keeper)
    cdef object address = <size_t><PyObject*>x
    if address in _keepers:
        return
    keeper.address = address
    keeper.reference = PyWeakref_NewRef(x, keeper)
    _count += 1
    keeper.number = _count
    _keepers[address] = keeper


@set_module("scopes.lowlevel")
def forget_keeper(x):
    """Undo ``add_keeper``: from now on `x` keeps nothing. A module calls this when it is disposed."""
    cdef object address = <size_t><PyObject*>x
    _keepers.pop(address, None)
    _marked.pop(address, None)


# Exact types of most attributes. They hold no disposables.
cdef frozenset _LEAVES = frozenset({
    int, float, complex, bool, str, bytes, type(None), type,
    FunctionType, BuiltinFunctionType, type(add_keeper),  # the last one is that of compiled functions
})


@set_module("scopes.lowlevel")
def note_held(x, value):
    """Look into the keeper `x` when scopes end, if its new attribute `value` may hold disposables.

    Numbers, text, functions, classes and tuples of these hold none. Without any keeper to look into, the
    end of a scope takes no time for keepers.
    """
    cdef object address
    if type(value) in _LEAVES:
        return
    if type(value) is tuple:
        for item in <tuple>value:
            if type(item) not in _LEAVES:
                break
        else:
            return
    address = <size_t><PyObject*>x
    if address not in _marked and address in _keepers:
        _marked[address] = _keepers[address]


cdef Py_ssize_t keeper_count() noexcept:
    return _count


cdef bint is_anything_held() noexcept:
    return len(_marked) > 0


cdef list held_by_older(Py_ssize_t older, Sought is_sought, void* context):
    cdef _Keeper keeper
    cdef list all_found = [], found = [], others = []
    for keeper in list(_marked.values()):
        if keeper.number > older or keeper.reference is None:
            continue
        holder = keeper.reference()
        if holder is None:
            continue
        _find(is_sought, context, <dict>PyObject_GenericGetDict(holder, NULL), found, others)
        if found:
            all_found.append((holder, found))
            found = []
    return all_found


cdef int _find(Sought is_sought, void* context, dict attributes, list found, list others) except -1:
    """Add the objects with ``is_sought(x, context)`` in `attributes`, and in containers in them, to `found`.

    `others` is an empty list, for sets and deques, whose items can't be read without Python objects.
    """
    cdef vector[PyObject*] waiting
    # Containers in containers, so that none is visited twice.
    cdef unordered_set[PyObject*] seen
    # The lists of items of sets and deques, kept alive so that `seen` has no address of a freed list.
    cdef list copied = None
    cdef PyObject* x
    _visit_dict(is_sought, context, attributes, found, waiting, others)
    while True:
        # No Python code runs while pointers wait, so that all of them stay valid.
        while not waiting.empty():
            x = waiting.back()
            waiting.pop_back()
            if not seen.insert(x).second:
                continue
            if PyDict_Check(<object>x):
                _visit_dict(is_sought, context, <dict>x, found, waiting, others)
            elif PyList_Check(<object>x):
                for i in range(PyList_GET_SIZE(<object>x)):
                    item = <object>PyList_GET_ITEM(<object>x, i)
                    _visit(is_sought, context, item, found, waiting, others, False)
            else:
                for i in range(PyTuple_GET_SIZE(<object>x)):
                    item = <object>PyTuple_GET_ITEM(<object>x, i)
                    _visit(is_sought, context, item, found, waiting, others, True)
        if not others:
            return 0
        if copied is None:
            copied = []
        other = others.pop()
        if seen.insert(<PyObject*>other).second:
            items = list(other)
            copied.append(items)
            waiting.push_back(<PyObject*>items)
    return 0


cdef int _visit_dict(
    Sought is_sought, void* context, dict attributes, list found, vector[PyObject*]& waiting, list others
) except -1:
    cdef Py_ssize_t place = 0
    cdef PyObject* value
    while PyDict_Next(attributes, &place, NULL, &value):
        _visit(is_sought, context, <object>value, found, waiting, others, False)
    return 0


cdef int _visit(
    Sought is_sought, void* context, value, list found, vector[PyObject*]& waiting, list others,
    bint is_in_tuple
) except -1:
    if value is None or PyUnicode_Check(value) or PyLong_Check(value) or PyFloat_Check(value):
        return 0
    if PyDict_Check(value):
        if PyDict_Size(value):
            waiting.push_back(<PyObject*>value)
    elif PyList_Check(value):
        if PyList_GET_SIZE(value):
            waiting.push_back(<PyObject*>value)
    elif PyTuple_Check(value):
        if is_in_tuple:
            waiting.push_back(<PyObject*>value)
            return 0
        # Without remembering it, which would take ten times as long: many lists hold many small tuples.
        for i in range(PyTuple_GET_SIZE(value)):
            _visit(is_sought, context, <object>PyTuple_GET_ITEM(value, i), found, waiting, others, True)
    elif PyAnySet_CheckExact(value):
        if PySet_GET_SIZE(value):
            others.append(value)
    elif type(value) is _deque:
        others.append(value)
    elif is_sought(<PyObject*>value, context):
        found.append(value)
    return 0
