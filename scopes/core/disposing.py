"""Run a function in its own scope and move its result to the caller's scope."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import partial, wraps
from types import CodeType
from typing import Any, ParamSpec, TypeVar, overload
from warnings import warn
from weakref import finalize

from scopes._shared.naming import set_module
from scopes.core.containers import find
from scopes.core.scope import DisposeScope, call_in_scope, dispose_each, generator_scope, may_be_owned

P = ParamSpec("P")
R = TypeVar("R")


@overload
def disposing(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def disposing(function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R: ...
@set_module("scopes")
def disposing(function: Any = None, /, *args: Any, **kwargs: Any) -> Any:
    """Run each call of `function` in its own scope, and move its result to the caller's scope.

    ``@disposing`` decorates functions, coroutine functions, generator functions and asynchronous generator
    functions. A generator's scope is suspended at each ``yield``: tensors that the consumer creates belong to
    the consumer's scope, and each yielded value moves to that scope. With arguments, ``disposing(function,
    *args, **kwargs)`` calls the function; without arguments, write ``disposing(function)()``.

    Warns
    -----
    RuntimeWarning
        If the result of ``disposing(function)`` is dropped in its own line: then nothing calls `function`.

    Raises
    ------
    TypeError
        If `function` can't be called, or is a ``staticmethod`` or ``classmethod``.

    Examples
    --------
    >>> import tensor
    >>> from scopes import disposing, new_dispose_scope
    >>> @disposing
    ... def squared_norm(x):
    ...     squares = x * x
    ...     return squares.sum()
    >>> with new_dispose_scope() as scope:
    ...     norm = squared_norm(tensor.ones((3,)))
    ...     norm.item(), norm in scope
    (3.0, True)
    """
    if isinstance(function, (staticmethod, classmethod)):
        raise TypeError(
            f"disposing() can't wrap a {type(function).__name__}: write @disposing below "
            f"@{type(function).__name__}, next to the def"
        )
    if not callable(function):
        given = "and got none" if function is None else f"not {type(function).__name__}"
        raise TypeError(
            f"disposing() takes a function, {given}: write @disposing above a def, without parentheses, "
            "or disposing(function, argument)"
        )
    wrapper = _wrap(function)
    return wrapper(*args, **kwargs) if args or kwargs else wrapper


def _wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    # For an object with __call__, such as a module, its __call__ decides which wrapper is used.
    called = (
        function if inspect.isroutine(function) or isinstance(function, partial) else type(function).__call__
    )
    if inspect.isasyncgenfunction(called):
        return _wrap_async_generator(function, name)
    if inspect.isgeneratorfunction(called):
        return _wrap_generator(function, name)
    if inspect.iscoroutinefunction(called):
        return _wrap_coroutine(function, name)
    return _wrap_function(function, name)


# A wrapper is of the same kind as its function (coroutine function, generator function, ...), so that
# `inspect`, pytest and frameworks treat both alike. Each wrapper clears its variables, because a traceback
# keeps the wrapper's frame alive.


def _wrap_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def in_scope(*args: Any, **kwargs: Any) -> Any:
        if uncalled:
            uncalled.pop().detach()
        try:
            return call_in_scope(name, function, args, kwargs)
        finally:
            args, kwargs = (), {}

    caller = sys._getframe(3)  # of disposing()
    uncalled = [finalize(in_scope, _warn_if_dropped_at_once, name, caller.f_code, caller.f_lineno)]
    uncalled[0].atexit = False
    return in_scope


def _warn_if_dropped_at_once(name: str, code: CodeType, line: int) -> None:
    """Warn if the running line is that of ``disposing(function)``, whose result was just freed."""
    frame = sys._getframe(2)  # below that of `finalize`
    if frame.f_code is code and frame.f_lineno == line:
        message = (
            f"nothing called the result of disposing({name}), which is a function. Write "
            "disposing(function)(), or disposing(function, *args)"
        )
        warn(message, RuntimeWarning, stacklevel=3)


def _wrap_coroutine(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    async def in_scope(*args: Any, **kwargs: Any) -> Any:
        try:
            with DisposeScope(name) as scope:
                return scope._hand_out(await function(*args, **kwargs))
        finally:
            args, kwargs = (), {}

    return in_scope


def _wrap_generator(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def in_scope(*args: Any, **kwargs: Any) -> Any:
        given = item = None
        try:
            with generator_scope(name) as scope:
                body = function(*args, **kwargs)
                args, kwargs = (), {}
                step = body.send
                while True:
                    try:
                        item = step(given)
                    except StopIteration as stop:
                        return scope._hand_out(stop.value)
                    step, given = body.send, None
                    scope._suspend(item)
                    try:
                        given = yield item
                    except BaseException as error:  # the function handles what the consumer throws
                        step, given = body.throw, error
                    finally:
                        item = None
                        scope._resume()
        finally:
            given = item = None
            args, kwargs = (), {}

    return in_scope


def _wrap_async_generator(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    async def in_scope(*args: Any, **kwargs: Any) -> Any:
        given = item = None
        try:
            with generator_scope(name) as scope:
                body = function(*args, **kwargs)
                args, kwargs = (), {}
                step = body.asend
                while True:
                    try:
                        item = await step(given)
                    except StopAsyncIteration:
                        return
                    step, given = body.asend, None
                    scope._suspend(item)
                    try:
                        given = yield item
                    except BaseException as error:  # the function handles what the consumer throws
                        step, given = body.athrow, error
                    finally:
                        item = None
                        scope._resume()
        finally:
            given = item = None
            args, kwargs = (), {}

    return in_scope


@set_module("scopes")
def dispose(*xs: object) -> None:
    """Dispose `xs`, and all disposables in containers in `xs`.

    Raises
    ------
    ExceptionGroup
        The errors of all disposals, raised after the last one.

    Examples
    --------
    >>> import tensor
    >>> from scopes import dispose
    >>> batch = {"x": tensor.ones((2,)), "y": tensor.ones((2,))}
    >>> dispose(batch)
    >>> batch["x"].is_invalid
    True
    """
    dispose_each(find(xs, may_be_owned, inside=False))
