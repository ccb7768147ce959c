"""Activations: functions of each element, and the softmax family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import tensor as tn
from nn.functional.checks import array_of, floating_array_of
from nn.functional.derivatives import RULES
from tensor import Tensor
from tensor._dtypes import Array, DtypeLike
from tensor._errors import shown
from tensor.core.promotion import with_numbers
from tensor.kernels import in_float32, relu_of, write_wide, xp
from tensor.kernels import silu as silu_of
from tensor.ops.dispatch import overwrite


def _in_place(name: str, input: Tensor, kernel: Callable[[Array], Array], **parameters: Any) -> Tensor:
    def write(array: Array) -> None:
        array[...] = in_float32(partial(with_numbers, kernel), array)

    overwrite(RULES[name], input, write, (input,), **parameters)
    return input


def _rectify(array: Array) -> None:
    relu_of(array, array)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return max(x, 0); with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.relu(tensor.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    if inplace:
        floating_array_of("relu", "input", input)
        overwrite(RULES["relu"], input, lambda x: write_wide(_rectify, x), (input,))
        return input
    array_of("relu", "input", input)
    return tn.relu(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Return x where positive, ``negative_slope * x`` elsewhere; with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.leaky_relu(tensor.tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    floating_array_of("leaky_relu", "input", input)
    if inplace:
        rule = "leaky_relu" if negative_slope >= 0 else "leaky_relu_by_input"
        return _in_place(rule, input, lambda x: xp.where(x > 0, x, x * negative_slope), slope=negative_slope)
    return tn.leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where positive, ``alpha * (exp(x) - 1)`` elsewhere; with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.elu(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    floating_array_of("elu", "input", input)
    if inplace:
        rule = "elu" if alpha >= 0 else "elu_by_input"
        return _in_place(
            rule, input, lambda x: xp.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), alpha=alpha
        )
    return tn.elu(input, alpha)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return x * sigmoid(x); with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.silu(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    floating_array_of("silu", "input", input)
    if inplace:
        return _in_place("silu", input, silu_of)
    return tn.silu(input)


def sigmoid(input: Tensor) -> Tensor:
    """Return 1 / (1 + exp(-x)).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.sigmoid(tensor.tensor([0.0])).tolist()
    [0.5]
    """
    array_of("sigmoid", "input", input)
    return tn.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """Return the hyperbolic tangent.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.tanh(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    array_of("tanh", "input", input)
    return tn.tanh(input)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Return ``x * Phi(x)``, with the distribution function Phi of the standard normal distribution.

    Parameters
    ----------
    input
        Any shape.
    approximate
        ``"none"``, or ``"tanh"`` for the faster approximation of Hendrycks and Gimpel (2016).

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.functional.gelu(tensor.tensor([1.0])).item(), 4)
    0.8413
    """
    floating_array_of("gelu", "input", input)
    return tn.gelu(input, approximate)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta; x itself if ``beta * x`` is above `threshold`.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.functional.softplus(tensor.tensor([0.0])).item(), 4)
    0.6931
    """
    floating_array_of("softplus", "input", input)
    return tn.softplus(input, beta, threshold)


def _no_dim(name: str, dim: object) -> TypeError:
    return TypeError(
        f"{name}: dim must be an integer, not {shown(dim)}: write dim=-1 to normalize along the last "
        "dimension"
    )


def softmax(input: Tensor, dim: int | None = None, *, dtype: DtypeLike | None = None) -> Tensor:
    """Return exp(x), divided by its sum along `dim`, computed in `dtype`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.softmax(tensor.tensor([0.0, 0.0]), dim=0).tolist()
    [0.5, 0.5]
    """
    if dtype is not None:
        input = input.to(dtype)
    floating_array_of("softmax", "input", input)
    if not isinstance(dim, int):
        raise _no_dim("softmax", dim)
    return tn.softmax(input, axis=dim)


def log_softmax(input: Tensor, dim: int | None = None, *, dtype: DtypeLike | None = None) -> Tensor:
    """Return ``log(softmax(input, dim))``, computed in `dtype` and with less rounding.

    Examples
    --------
    >>> import nn, tensor
    >>> [round(x, 4) for x in nn.functional.log_softmax(tensor.tensor([0.0, 0.0]), dim=0).tolist()]
    [-0.6931, -0.6931]
    """
    if dtype is not None:
        input = input.to(dtype)
    floating_array_of("log_softmax", "input", input)
    if not isinstance(dim, int):
        raise _no_dim("log_softmax", dim)
    return tn.log_softmax(input, axis=dim)
