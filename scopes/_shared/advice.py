"""Add advice to the ``TypeError`` of a call with wrong arguments."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

# Arguments: the function's name and parameters, and the call's arguments by position and by name.
Adviser = Callable[[str, Mapping[str, inspect.Parameter], tuple[Any, ...], Mapping[str, Any]], "str | None"]

# Messages of Python and Cython for arguments that do not fit. Other errors already say what is wrong. The
# pattern is compiled at first use, because `re.compile` takes 0.5 ms.
_MISMATCH = r"\(\) (got|takes|missing|needs) "
_TAKES = ". It takes "
_advisers: dict[str, Adviser] = {}


def advise_calls_of(package: str, adviser: Adviser) -> None:
    """Register a function that gives advice on wrong arguments for functions of `package`.

    Call ``clear_errors_of`` for these functions first.

    Examples
    --------
    >>> from scopes._shared.advice import advise_calls_of
    >>> from scopes._shared.clearing import clear_errors_of
    >>> def half(x):
    ...     return x / 2
    >>> public = {"__name__": "another_package", "half": half}
    >>> clear_errors_of(public, ["half"])
    >>> advise_calls_of("another_package", lambda name, parameters, args, kwargs: f"write {name}(2)")
    >>> half.__module__ = "another_package"
    >>> public["half"](y=2)
    Traceback (most recent call last):
    TypeError: another_package.half() got an unexpected keyword argument 'y': write another_package.half(2).
    It takes (x)
    """
    _advisers[package] = adviser


def explain_call(
    error: TypeError,
    public: Callable[..., Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Add advice to `error` if the arguments do not fit the parameters of `function`."""
    if _TAKES in str(error) or not re.search(_MISMATCH, str(error)):
        return
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        pass
    else:
        return
    parameters = dict(signature.parameters)
    name = public.__name__
    shown = call_text = f"{public.__module__}.{name}"
    first = next(iter(parameters), None)
    # A function of elementwise ops is a method too: its first parameter is then the tensor.
    if first is not None and args and (first == "self" or getattr(type(args[0]), name, None) is public):
        del parameters[first]
        kind = type(args[0]).__name__
        shown, call_text = (kind, kind) if name == "__init__" else (f"{kind}.{name}", f"x.{name}")
        args = args[1:]
    adviser = _advisers.get(function.__module__.partition(".")[0])
    advice = adviser(call_text, parameters, args, kwargs) if adviser is not None else None
    message = str(error).partition("() ")[2] or str(error)
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters.values()]
    takes = f"{_TAKES}{inspect.Signature(bare)}" if bare else ""
    error.args = (f"{shown}() {message}{f': {advice}' if advice else ''}{takes}",)
