"""Decorate functions with a context manager around each call."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_R = TypeVar("_R")

_IS_GENERATOR = 0x20 | 0x200
_IS_COROUTINE = 0x80


def in_block(function: Callable[_P, _R], around: Callable[[], Any]) -> Callable[_P, _R]:
    """Return `function` with each call inside a new ``around()``. An ``async def`` is inside until it ends.

    Raises
    ------
    TypeError
        If `function` is a generator function.

    Examples
    --------
    >>> from contextlib import nullcontext
    >>> from scopes._shared.decorating import in_block
    >>> in_block(abs, nullcontext)(-1)
    1
    """
    flags = getattr(getattr(function, "__code__", None), "co_flags", 0)
    if flags & _IS_GENERATOR:
        raise TypeError(
            f"{function.__name__} is a generator function, whose body runs in the loops of its callers: "
            "write the `with` statement in its body, or around the loop"
        )
    if flags & _IS_COROUTINE:

        @wraps(function)
        async def awaited(*args: _P.args, **kwargs: _P.kwargs) -> Any:
            with around():
                return await cast("Any", function(*args, **kwargs))

        return cast("Callable[_P, _R]", awaited)

    @wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with around():
            return function(*args, **kwargs)

    return called
