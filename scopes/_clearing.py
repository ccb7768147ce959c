"""Clear the frames of a library in errors that its public functions raise."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from scopes.core.calls import clear_errors_of_methods, clearing, may_keep_frames


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
    replacements: dict[int, Any] = {}  # by the id of the function: several names of one stay one function
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
