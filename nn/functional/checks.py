"""Checks of the arguments of functions in `nn.functional`, and reductions of losses."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from tensor import Tensor
from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError, shown
from tensor.core.tensor import TensorCore
from tensor.tape.modes import is_recording

REDUCTIONS = ("mean", "sum", "none")


def array_of(name: str, what: str, x: object) -> Array:
    """Return the array of the tensor `x`."""
    if not isinstance(x, TensorCore):
        data = what if what.isidentifier() else "data"
        raise TypeError(
            f"{name}: {what} must be a tensor, not {type(x).__name__}: write tensor.tensor({data})"
        )
    array = x._array
    if array is None:
        x._raise_disposed()
    return array


def floating_array_of(name: str, what: str, x: object) -> Array:
    """Return the array of the floating tensor `x`."""
    # Call `array_of` only for errors, because a call takes 50 ns.
    array = x._array if isinstance(x, TensorCore) else None
    if array is None:
        array = array_of(name, what, x)
    if not is_floating(array.dtype):
        raise TypeError(f"{name}: {what} must be floating, not {array.dtype}: convert it with {what}.float()")
    return array


def is_wanted(x: object) -> bool:
    """Return whether an op on `x` will be recorded for backward."""
    return getattr(x, "_node", None) is not None and is_recording()


def check_reduction(name: str, reduction: str, *more: str) -> None:
    """Raise ValueError unless `reduction` is one of `REDUCTIONS` or of `more`."""
    if reduction not in (*REDUCTIONS, *more):
        raise InvalidArgumentError(
            f"{name}: reduction must be one of {(*REDUCTIONS, *more)}, not {shown(reduction)}"
        )


def check_probability(name: str, what: str, p: float) -> None:
    """Raise an error that calls `p` `what`, unless `p` is a number from 0 to 1."""
    if not isinstance(p, (float, int, Real)):
        raise TypeError(f"{name}: {what} must be a number from 0 to 1, not {type(p).__name__}")
    if not 0 <= p <= 1:
        raise InvalidArgumentError(f"{name}: {what} must be from 0 to 1, not {shown(p)}")


def check_delta(name: str, delta: float) -> None:
    """Raise TypeError unless `delta` is a real number."""
    if not isinstance(delta, Real):
        raise TypeError(f"{name}: delta must be a float or int, not {shown(delta)}")


def check_same_shape(name: str, a: Array, b: Array, first: str = "input", second: str = "target") -> None:
    """Raise ValueError unless `a` and `b` have the same shape. The error calls them `first` and `second`."""
    if a.shape != b.shape:
        advice = f": write {second}.reshape({first}.shape)" if a.size == b.size else ""
        raise InvalidArgumentError(
            f"{name}: {first} and {second} must have the same shape, not {a.shape} and {b.shape}{advice}"
        )


def pair_of(
    name: str, input: Tensor, target: Tensor, reduction: str, *more: str, can_broadcast: bool = False
) -> tuple[Array, Array]:
    """Return the arrays of a loss's input and target; check their shapes and the reduction.

    The target has the shape of the input or, with `can_broadcast`, a shape that broadcasts to it.
    """
    check_reduction(name, reduction, *more)
    x = floating_array_of(name, "input", input)
    y = array_of(name, "target", target)
    if not (can_broadcast and _broadcasts(y.shape, x.shape)):
        check_same_shape(name, x, y)
    return x, y


def _broadcasts(shape: tuple[int, ...], to_shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to_shape) == to_shape
    except ValueError:
        return False


def reduced(values: Array, reduction: str) -> tuple[Array, float]:
    """Return the reduced loss, and the weight of each of `values` in it."""
    if reduction == "none":
        return values, 1.0
    if reduction == "sum":
        return np.asarray(values.sum(dtype=values.dtype)), 1.0
    if values.size == 0:
        return np.asarray(np.nan, values.dtype), 0.0
    return np.asarray(values.mean(dtype=values.dtype)), 1.0 / values.size


def floating_target(input: Tensor, target: Tensor) -> Tensor:
    """Return `target`. Convert integers to the dtype of `input`, the dtype of the result."""
    return target if is_floating(target.dtype) else target.to(input.dtype)


def reduce_losses(losses: Tensor, reduction: str) -> Tensor:
    """Return the sum or the mean of `losses`, or `losses` themselves. The mean of no losses is NaN."""
    if reduction == "none":
        return losses
    if reduction == "sum" or losses.numel():
        return losses.sum() if reduction == "sum" else losses.mean()
    return losses.sum() / 0


def scalar(x: Any, like: Array) -> Any:
    """Return the number `x` in the dtype of `like`, so that an op with `like` keeps this dtype."""
    return like.dtype.type(x)
