"""Run a function in a scope of its own and hand its result to the caller's scope."""

from __future__ import annotations

import inspect
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, overload

from scopes._scope import DisposeScope, current, current_dispose_scope

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

P = ParamSpec("P")
R = TypeVar("R")


@overload
def disposing(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def disposing(function: Callable[..., R], /, *args: object, **kwargs: object) -> R: ...
def disposing(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Give each call of `function` a scope of its own, and all it returns to the caller's scope.

    ``@disposing`` decorates functions, coroutine functions, generator functions and asynchronous generator
    functions. A generator's scope is suspended at each ``yield``: what the consumer creates meanwhile is the
    consumer's, and each yielded value moves to the scope that is current at the consumer. With arguments,
    ``disposing(function, *args, **kwargs)`` is the call itself.

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
    if not callable(function):
        raise TypeError(
            f"disposing() takes a function, not a {type(function).__name__}: write @disposing above a def, or "
            "disposing(function, argument)"
        )
    wrapper = _wrap(function)
    return wrapper(*args, **kwargs) if args or kwargs else wrapper


def _wrap(function: Callable[..., Any]) -> Callable[..., Any]:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if inspect.isasyncgenfunction(function):

        @wraps(function)
        def in_scope(*args: Any, **kwargs: Any) -> Any:
            return _run_async_generator(function(*args, **kwargs), name)

    elif inspect.isgeneratorfunction(function):

        @wraps(function)
        def in_scope(*args: Any, **kwargs: Any) -> Any:
            return _run_generator(function(*args, **kwargs), name)

    elif inspect.iscoroutinefunction(function):

        @wraps(function)
        async def in_scope(*args: Any, **kwargs: Any) -> Any:
            with DisposeScope(name) as scope:
                return scope.move_to_outer(await function(*args, **kwargs))

    else:

        @wraps(function)
        def in_scope(*args: Any, **kwargs: Any) -> Any:
            with DisposeScope(name) as scope:
                return scope.move_to_outer(function(*args, **kwargs))

    return in_scope


class _SuspendableScope(DisposeScope):
    """A generator's scope: current while the generator runs, out of sight while its consumer does."""

    __slots__ = ("_innermost",)

    def __init__(self, name: str) -> None:
        super().__init__(name)
        # What is current inside: this, or a scope that the generator has open at its yield.
        self._innermost: DisposeScope | None = self

    def suspend(self) -> None:
        self._innermost = current_dispose_scope()
        current.set(self.outer_scope)

    def resume(self) -> None:
        # The consumer may have gone on in another scope, task or thread.
        self._outer = current_dispose_scope()
        current.set(self._innermost)

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        current.set(self.outer_scope)


def _run_generator(body: Generator[R, Any, Any], name: str) -> Generator[R, Any, Any]:
    step: Callable[[Any], R] = body.send
    given: Any = None
    with _SuspendableScope(name) as scope:
        while True:
            try:
                item = step(given)
            except StopIteration as stop:
                return scope.move_to_outer(stop.value)
            scope.move_to_outer(item)
            step, given = body.send, None
            scope.suspend()
            try:
                given = yield item
            except BaseException as error:  # whatever the consumer throws in belongs to the body
                step, given = cast("Callable[[Any], R]", body.throw), error
            finally:
                del item
                scope.resume()


async def _run_async_generator(body: AsyncGenerator[R, Any], name: str) -> AsyncGenerator[R, Any]:
    step: Callable[[Any], Any] = body.asend
    given: Any = None
    with _SuspendableScope(name) as scope:
        while True:
            try:
                item = await step(given)
            except StopAsyncIteration:
                return
            scope.move_to_outer(item)
            step, given = body.asend, None
            scope.suspend()
            try:
                given = yield item
            except BaseException as error:  # whatever the consumer throws in belongs to the body
                step, given = body.athrow, error
            finally:
                del item
                scope.resume()
