"""NumPy interoperability: arrays from tensors, and NumPy's ufuncs and functions on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tensor._dtypes import require_supported
from tensor.core.tensor import TensorCore, snapshot, wrap, writing
from tensor.memory.buffer import owner_of
from tensor.ops.data import as_data
from tensor.ops.dispatch import as_array, function_of
from tensor.tape.modes import grad_enabled

NO_HISTORY = (
    "and an argument requires grad: its gradient would be lost. Use the function of the tensor namespace, or "
    "x.detach()"
)


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the op of this library for `ufunc` if there is one. Run other ufuncs on the values."""
    ours = function_of.get(ufunc)
    if ours is not None and method == "__call__" and not kwargs:
        result = ours(*[_as_operand(x) for x in inputs])
        if result is not NotImplemented:
            return result
    out = kwargs.pop("out", ())
    _require_no_history(f"np.{ufunc.__name__} runs on plain values here", [*inputs, *out])
    if method == "at":
        target, *others = inputs
        values = [_values(x) for x in others]
        if not isinstance(target, TensorCore):
            return ufunc.at(target, *values)
        with writing(target) as memory:
            return ufunc.at(memory, *values)
    results = getattr(ufunc, method)(*map(_values, inputs), **_plain_arguments(kwargs))
    if not out:
        return tuple(map(_wrapped, results)) if isinstance(results, tuple) else _wrapped(results)
    each = results if isinstance(results, tuple) else (results,)
    written = tuple(
        _wrapped(result) if target is None else _write(ufunc.__name__, target, result)
        for target, result in zip(out, each, strict=True)
    )
    return written if isinstance(results, tuple) else written[0]


def call_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run NumPy's function on the values, and return its result."""
    return function(*_plain_arguments(args), **_plain_arguments(kwargs))


def _as_operand(x: object) -> object:
    return as_data(x, None) if isinstance(x, (list, tuple)) else x


def _values(x: Any) -> Any:
    return snapshot(x) if isinstance(x, TensorCore) else x


def _plain_arguments(x: Any) -> Any:
    """Return `x` with tensors replaced by arrays, also in nested lists, tuples and dicts."""
    if isinstance(x, TensorCore):
        return np.asarray(x)
    if isinstance(x, (list, tuple)):
        return type(x)([_plain_arguments(item) for item in x])
    if isinstance(x, dict):
        return {key: _plain_arguments(item) for key, item in x.items()}
    return x


def _require_no_history(what: str, arguments: list[Any]) -> None:
    for x in arguments:
        if isinstance(x, TensorCore):
            x._raise_if_disposed()
            if x._node is not None and grad_enabled.get():
                raise RuntimeError(f"{what}, {NO_HISTORY}")


def _wrapped(result: Any) -> Any:
    array = as_array(result)
    require_supported(array.dtype)
    # A user-defined ufunc may return any object, such as one of its operands.
    return wrap(array if owner_of(array) is array and array.flags.owndata else array.copy())


def _write(name: str, target: Any, result: Any) -> Any:
    array = as_array(result)
    place: Any = target._array if isinstance(target, TensorCore) else target
    if place is None:
        target._raise_disposed()
    if place.shape != array.shape:
        raise ValueError(f"np.{name}: out has shape {place.shape}, but the result has shape {array.shape}")
    if not np.can_cast(array.dtype, place.dtype, "same_kind"):
        raise TypeError(
            f"np.{name}: can't write a result of {array.dtype} to an out of {place.dtype}: use that "
            "dtype for out"
        )
    if isinstance(target, TensorCore):
        with writing(target) as memory:
            memory[...] = array
    else:
        target[...] = array
    return target
