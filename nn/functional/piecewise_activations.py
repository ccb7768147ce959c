"""Piecewise activations: bounded, hard, shrinking, and with learned or random slopes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tensor as tn
from nn.functional.checks import array_of, floating_array_of
from tensor import Generator, Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.core.promotion import with_numbers
from tensor.core.tensor import composite, last_use
from tensor.kernels import hardsigmoid as hardsigmoid_of
from tensor.kernels import hardswish as hardswish_of
from tensor.ops.dispatch import apply, apply_into
from tensor.ops.scaling import rounded_to
from tensor.tape.rules.table import define


def _between(xp: Any, g: Any, input: Any, low: float, high: float, slope: float) -> Any:
    """Return the gradient times `slope` where the input is between `low` and `high`, else 0."""
    is_out = (input <= low) | (input >= high) if high < math.inf else input <= low
    return xp.keep_where(g * slope, ~is_out)


def _hardswish(xp: Any, g: Any, input: Any) -> Any:
    inner = xp.where(input < 3, g * (input / 3 + 0.5), g)
    return xp.keep_where(inner, ~(input <= -3))


_BOUNDED = define("bounded", input=_between)
_HARDSWISH = define("hardswish", input=_hardswish)
_SHRUNK = define("shrunk", input=lambda xp, g, out: xp.where_nonzero(g, out))  # nan counts as nonzero


def maybe_in_place(function: Callable[[Tensor], Tensor], input: Tensor, inplace: bool) -> Tensor:
    """Return ``function(input)``; with `inplace`, write it to `input`."""
    return _write_over(input, function) if inplace else function(input)


@composite
def _write_over(input: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    return input.copy_(function(input))


def _bounded(
    input: Tensor,
    kernel: Callable[[Array, Array | None], Array],
    low: float,
    high: float,
    slope: float,
    inplace: bool,
) -> Tensor:
    def function(x: Tensor) -> Tensor:
        return apply_into(_BOUNDED, partial(with_numbers, kernel), (x,), low=low, high=high, slope=slope)

    return maybe_in_place(function, input, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x, limited to the range from `min_val` to `max_val`; with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.hardtanh(tensor.tensor([-2.0, 0.5, 3.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    floating_array_of("hardtanh", "input", input)
    if min_val > max_val:
        raise InvalidArgumentError(
            f"hardtanh: min_val must be at most max_val, not {min_val} with max_val={max_val}"
        )

    def kernel(x: Array, out: Array | None) -> Array:
        return np.clip(x, min_val, max_val, out)

    return _bounded(input, kernel, min_val, max_val, 1.0, inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Return min(max(x, 0), 6); with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.relu6(tensor.tensor([-2.0, 0.5, 7.0])).tolist()
    [0.0, 0.5, 6.0]
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x / 6 + 1 / 2, clamped to the range 0 to 1; with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.hardsigmoid(tensor.tensor([-3.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    floating_array_of("hardsigmoid", "input", input)
    return _bounded(input, hardsigmoid_of, -3.0, 3.0, 1 / 6, inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``x * hardsigmoid(x)`` (Howard et al., 2019); with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.hardswish(tensor.tensor([0.0, 4.0])).tolist()
    [0.0, 4.0]
    """
    floating_array_of("hardswish", "input", input)

    def function(x: Tensor) -> Tensor:
        return apply_into(_HARDSWISH, partial(with_numbers, hardswish_of), (x,))

    return maybe_in_place(function, input, inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Return x where it is above `threshold`, `value` elsewhere; with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.threshold(tensor.tensor([0.5, 2.0]), 1.0, -7.0).tolist()
    [-7.0, 2.0]
    """
    floating_array_of("threshold", "input", input)

    def kernel(x: Array, out: Array | None) -> Array:
        if out is None:
            return np.where(x <= threshold, x.dtype.type(value), x)
        np.copyto(out, x.dtype.type(value), where=x <= threshold)
        return out

    return _bounded(input, kernel, threshold, math.inf, 1.0, inplace)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return x where its magnitude is above `lambd`, 0 elsewhere.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.hardshrink(tensor.tensor([-2.0, 0.3])).tolist()
    [-2.0, 0.0]
    """
    floating_array_of("hardshrink", "input", input)
    limit = rounded_to(input.dtype, lambd)
    return apply(_SHRUNK, lambda x: np.where(np.abs(x) <= limit, x.dtype.type(0), x), (input,))


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Return x moved towards 0 by `lambd`; 0 where the magnitude of x is at most `lambd`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.softshrink(tensor.tensor([-2.0, 0.3])).tolist()
    [-1.5, 0.0]
    """
    floating_array_of("softshrink", "input", input)
    if not lambd >= 0:
        raise InvalidArgumentError(f"softshrink: lambd must be at least 0, not {shown(lambd)}")

    def kernel(x: Array) -> Array:
        nearer: Array = x - np.copysign(x.dtype.type(lambd), x)
        found: Array = np.where(np.abs(x) <= lambd, x.dtype.type(0), nearer)
        return found

    return apply(_SHRUNK, partial(with_numbers, kernel), (input,))


@composite
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return x where positive, ``weight * x`` elsewhere (He et al., 2015).

    Parameters
    ----------
    input
        Shape ``(batch, channels, *)``, or any shape for one weight.
    weight
        Shape ``(channels,)`` or ``(1,)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.prelu(tensor.tensor([-2.0, 2.0]), tensor.tensor([0.25])).tolist()
    [-0.5, 2.0]
    """
    x, w = floating_array_of("prelu", "input", input), array_of("prelu", "weight", weight)
    channels = x.shape[1] if x.ndim > 1 else 1
    if w.size not in (1, channels) or w.ndim > 1:
        raise InvalidArgumentError(
            f"prelu: weight must have shape (1,) or ({channels},), one element for each channel, not "
            f"{w.shape}"
        )
    weight = weight.reshape((-1, *(1 for _ in x.shape[2:])) if w.size > 1 else ())
    scaled = weight * input
    return tn.where(input > 0, last_use(input), scaled)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return x where positive, elsewhere x times a random slope from `lower` to `upper`.

    Without `training` the slope is the mean of `lower` and `upper`. With `inplace`, the result is written to
    `input`. `generator` draws the slopes; None is the default one.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.rrelu(tensor.tensor([-2.0, 2.0]), 0.25, 0.75).tolist()
    [-1.0, 2.0]
    """
    shape = floating_array_of("rrelu", "input", input).shape
    if not lower <= upper:
        raise InvalidArgumentError(
            f"rrelu: lower must be at most upper, not {shown(lower)} with upper={shown(upper)}"
        )
    slopes: Any = (lower + upper) / 2
    if training:
        slopes = tn.rand(*shape, dtype=input.dtype, generator=generator) * (upper - lower) + lower

    @composite
    def function(x: Tensor) -> Tensor:
        scaled = x * slopes
        return tn.where(x > 0, last_use(x), scaled)

    return maybe_in_place(function, input, inplace)
