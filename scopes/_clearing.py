"""Clear the frames of a library in errors that its public functions raise."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from inspect import unwrap
from types import FunctionType
from typing import Any

from scopes.core.calls import clearing

_CompiledFunction = type(clearing)
# Methods that are not wrapped. The interpreter calls them to create classes and objects and to read
# attributes. The `__call__` of a module calls `forward`, and clears frames itself.
_AS_THEY_ARE = {"__new__", "__init_subclass__", "__class_getitem__", "__getattr__", "forward"}


def clear_errors_of(namespace: MutableMapping[str, Any], names: Iterable[str]) -> None:
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
    >>> from scopes.lowlevel import clear_errors_of, clear_frames_of
    >>> def half(x):
    ...     return x / 2
    >>> public = {"__name__": "a_package_of_mine", "half": half}
    >>> clear_frames_of("a_package_of_mine")
    >>> clear_errors_of(public, ["half"])
    >>> public["half"](8)
    4.0
    """
    package = namespace["__name__"].partition(".")[0]
    for name in names:
        public = namespace[name]
        if _may_keep_frames(public):
            namespace[name] = cleared = clearing(public)
            cleared.__module__ = namespace["__name__"]
        elif isinstance(public, type):
            for base in public.__mro__:
                if base.__module__.partition(".")[0] == package:
                    _clear_errors_of_methods(base)


def _may_keep_frames(x: object) -> bool:
    """Return whether `x` is a function that runs Python code, also inside of compiled wrappers."""
    if isinstance(x, FunctionType):
        return True
    return (
        isinstance(x, _CompiledFunction)
        and not hasattr(x, "clears_errors")
        and isinstance(unwrap(x), FunctionType)
    )


def _clear_errors_of_methods(cls: type) -> None:
    compiled: dict[object, Any] = {}  # two names of one method share one wrapper
    for name, member in list(vars(cls).items()):
        is_private = name.startswith("_") and not name.endswith("__")
        if _may_keep_frames(member) and not is_private and name not in _AS_THEY_ARE:
            cleared = clearing(member)
            setattr(
                cls,
                name,
                cleared if isinstance(member, FunctionType) else compiled.setdefault(member, cleared),
            )
        elif isinstance(member, property) and member.fset is not None:
            setattr(cls, name, member.setter(clearing(member.fset)))
