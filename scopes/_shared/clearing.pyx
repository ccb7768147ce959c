# cython: language_level=3, auto_pickle=False
"""Clear the frames of this library in the errors that its public functions raise.

This module is compiled, so tracebacks have no frame of the wrapper itself.
"""

from functools import WRAPPER_ASSIGNMENTS as _COPIED
from types import FunctionType as _FunctionType

from scopes._shared.advice import explain_call
from scopes._shared.tracebacks import clear_library_frames
from scopes._shared.naming import set_module


cdef object _named_as(function, wrapper):
    """Do the same as ``functools.update_wrapper``, but faster: `import tensor` calls it 700 times."""
    cdef dict attributes = wrapper.__dict__
    for name in _COPIED:
        try:
            value = getattr(function, name)
        except AttributeError:
            continue
        setattr(wrapper, name, value)
    attributes.update(getattr(function, "__dict__", ()))
    attributes["__wrapped__"] = function
    return wrapper


def clearing(function):
    """Wrap `function` so that the tracebacks of its errors hold no operands and no partial results.

    The frames of this library in the traceback are cleared; users' frames keep their locals. If the arguments
    do not fit the parameters, the error says what to write.
    """
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if type(error) is TypeError:
                explain_call(error, call, function, args, kwargs)
            clear_library_frames(error)
            raise

    cleared = _named_as(function, call)
    cleared.clears_errors = True
    return cleared


def without_frames(function):
    """Wrap a function that the library returns to its user, so that its stored errors keep no tensor alive.

    An error keeps the frames of its traceback alive, and a frame keeps its locals. The wrapper clears the
    frames of libraries, as ``clear_errors_of`` does for the functions of a module. Users' frames keep their
    locals. The wrapper is freed with its last reference.

    Examples
    --------
    >>> from scopes._shared.clearing import without_frames
    >>> without_frames(lambda x: x / 2)(8)
    4.0
    """
    # Unlike the wrapper in `clearing`, this one does not refer to itself: it is in no reference cycle.
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            clear_library_frames(error)
            raise

    return _named_as(function, call)


cdef object _CompiledFunction = type(clearing)
# Methods that are not wrapped. The interpreter calls them to create classes and objects and to read
# attributes. The `__call__` of a module calls `forward`, and clears frames itself.
cdef set _AS_THEY_ARE = {"__new__", "__init_subclass__", "__class_getitem__", "__getattr__", "forward"}


def may_keep_frames(x):
    """Return whether `x` is a function that runs Python code, also inside of compiled wrappers."""
    if isinstance(x, _CompiledFunction) and not hasattr(x, "clears_errors"):
        while isinstance(x, _CompiledFunction):
            x = getattr(x, "__wrapped__", None)
    return isinstance(x, _FunctionType)


def clear_errors_of_methods(cls):
    """Replace the public methods of `cls` that may keep frames, and such setters of properties.

    This is compiled, because `import tensor` calls it for 40 classes with 1,300 members.
    """
    cdef dict compiled = {}  # two names of one method share one wrapper
    cdef str name
    for name, member in list(vars(cls).items()):
        if isinstance(member, property):
            if member.fset is not None:
                setattr(cls, name, member.setter(clearing(member.fset)))
            continue
        if name in _AS_THEY_ARE or (name.startswith("_") and not name.endswith("__")):
            continue
        if not may_keep_frames(member):
            continue
        if isinstance(member, _FunctionType):
            setattr(cls, name, clearing(member))
            continue
        if member not in compiled:
            compiled[member] = clearing(member)
        setattr(cls, name, compiled[member])


@set_module("scopes.lowlevel")
def clear_errors_of(namespace, names):
    """Wrap a public module's functions and methods so that their stored errors keep no tensor alive.

    An error keeps the frames of its traceback alive, and a frame keeps its locals alive: operands and partial
    results. This replaces the named functions, and the methods of the named classes and of their bases in the
    same package. A replacement clears the library's frames when it raises an error. Users' frames keep their
    locals. Calls inside the library use the original functions. Compiled functions have no frames and are not
    replaced, unless they wrap a Python function. A replacement has the ``__module__`` of the public module,
    so that ``pickle`` finds it.

    Parameters
    ----------
    namespace : dict
        The module's ``globals()``.
    names : iterable of str
        Its ``__all__``.

    Examples
    --------
    >>> from scopes._shared.clearing import clear_errors_of
    >>> from scopes._shared.tracebacks import clear_frames_of
    >>> def half(x):
    ...     return x / 2
    >>> public = {"__name__": "a_package_of_mine", "half": half}
    >>> clear_frames_of("a_package_of_mine")
    >>> clear_errors_of(public, ["half"])
    >>> public["half"](8)
    4.0
    """
    package = namespace["__name__"].partition(".")[0]
    replacements = {}  # by the id of the function: several names of one stay one function
    for name in names:
        public = namespace[name]
        if id(public) in replacements:
            namespace[name] = replacements[id(public)]
        elif may_keep_frames(public):
            namespace[name] = cleared = replacements[id(public)] = clearing(public)
            cleared.__module__ = namespace["__name__"]
        elif isinstance(public, type):
            for base in public.__mro__:
                if base.__module__.partition(".")[0] == package:
                    clear_errors_of_methods(base)
