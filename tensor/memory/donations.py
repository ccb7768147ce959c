"""Functions that take over the memory of their arguments: ``@memory.donating``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from tensor.memory.allocator import count_donation

_P = ParamSpec("_P")
_R = TypeVar("_R")


class _Donatable(Protocol):
    """The methods of a tensor that this module uses; it can't import the class."""

    @property
    def is_invalid(self) -> bool: ...
    def data_ptr(self) -> int: ...
    def _raise_if_not_donatable(self) -> None: ...
    def _transferred(self, ending: str) -> _Donatable: ...


def donating(*names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Decorate a function so that it takes over the memory of the tensors in the arguments `names`.

    When the function is called, these tensors become empty, and the function gets new tensors with their
    memory, gradients and history. It may write to the new tensors, dispose them early, or donate their memory
    to a single op (``x.donate()``), without an effect on the caller. If a view, an alias or a NumPy array
    shares the memory, the function gets a copy. Afterwards ``memory.statistics()`` counts for each donated
    tensor whether an output uses its memory (``donation_reuse_count``) or not (``donation_miss_count``).

    JAX has the same feature as ``jit(donate_argnums=)``. Tensors may be in lists, tuples and dicts. The
    function gets copies of these containers.

    Parameters
    ----------
    *names
        The names of parameters of the function.

    Raises
    ------
    TypeError
        If the function has no parameter of that name, or is a generator or ``async``. At a call, if such an
        argument holds a ``Parameter``, or the same tensor twice. Then no tensor is emptied.
    TensorDisposedError
        At a call, if such a tensor is empty. The other tensors are unchanged.

    Examples
    --------
    >>> import tensor
    >>> from tensor import memory
    >>> @memory.donating("velocity")
    ... def accelerated(velocity, gradient):
    ...     return velocity.mul_(0.9).add_(gradient)
    >>> velocity = tensor.ones((1000,))
    >>> faster = accelerated(velocity, tensor.ones((1000,)))
    >>> velocity.is_invalid
    True
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError('write the names of the arguments to donate: @memory.donating("state")')

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        title = getattr(function, "__qualname__", type(function).__qualname__)
        for name in names:
            if name not in signature.parameters:
                raise TypeError(
                    f"{title}() has no parameter {name!r}, which @memory.donating names. Its "
                    f"parameters: {', '.join(signature.parameters) or 'none'}"
                )
        if _suspends(function):
            raise TypeError(
                f"{title}() is async or a generator, which @memory.donating does not support: "
                "decorate the function that it calls"
            )

        @wraps(function)
        def with_donations(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            bound = signature.bind(*args, **kwargs)
            args, kwargs = (), {}  # type: ignore[assignment]
            given = {name: bound.arguments[name] for name in names if name in bound.arguments}
            found = _found_in(given, title)
            taken: dict[int, _Donatable] = {}
            addresses: list[tuple[_Donatable, int]] = []
            for x, name in found:
                taker = x._transferred(f"its memory was donated to {title}() as {name!r}")
                taken[id(x)] = taker
                addresses.append((taker, taker.data_ptr()))
            for name, argument in given.items():
                bound.arguments[name] = _exchanged(argument, taken)
            argument = x = taker = None  # type: ignore[assignment]
            given, found, taken = {}, [], {}
            try:
                result = function(*bound.args, **bound.kwargs)
                _count(result, addresses)
            finally:
                del bound, addresses
            return result

        return with_donations

    return decorate


def _suspends(function: Callable[..., object]) -> bool:
    return (
        inspect.iscoroutinefunction(function)
        or inspect.isgeneratorfunction(function)
        or inspect.isasyncgenfunction(function)
    )


def _tensors_in(x: Any) -> Iterator[_Donatable]:
    if hasattr(type(x), "_transferred"):
        yield x
    elif isinstance(x, dict):
        for item in x.values():
            yield from _tensors_in(item)
    elif isinstance(x, (list, tuple)):
        for item in x:
            yield from _tensors_in(item)


def _found_in(given: dict[str, Any], title: str) -> list[tuple[_Donatable, str]]:
    """Return the tensors to donate with their argument names. Raise an error if one can't be donated."""
    found: list[tuple[_Donatable, str]] = []
    seen: set[int] = set()
    for name, argument in given.items():
        for x in _tensors_in(argument):
            if id(x) in seen:
                raise TypeError(
                    f"{title}() would get the same tensor twice in its donated arguments (the second time in "
                    f"{name!r}): pass x.clone() for one of them"
                )
            seen.add(id(x))
            x._raise_if_not_donatable()
            found.append((x, name))
    return found


def _exchanged(x: Any, taken: dict[int, _Donatable]) -> Any:
    """Return `x` with the new tensors, in copies of its containers."""
    if id(x) in taken:
        return taken[id(x)]
    if isinstance(x, dict):
        items = {key: _exchanged(item, taken) for key, item in x.items()}
        return items if type(x) is dict else type(x)(items)
    if isinstance(x, (list, tuple)):
        parts = [_exchanged(item, taken) for item in x]
        if hasattr(x, "_fields"):
            return type(x)(*parts)  # a named tuple
        return type(x)(parts)
    return x


def _count(result: Any, addresses: list[tuple[_Donatable, int]]) -> None:
    """Count for each donated tensor whether an output uses its memory."""
    outputs = {x.data_ptr() for x in _tensors_in(result) if not x.is_invalid}
    for _, address in addresses:
        count_donation(address in outputs)
