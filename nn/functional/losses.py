"""Losses that compare each element of the input with its target."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nn.functional.checks import (
    array_of,
    check_delta,
    check_reduction,
    check_same_shape,
    pair_of,
    reduce_losses,
    reduced,
)
from nn.functional.derivatives import RULES
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.core.promotion import with_numbers
from tensor.core.tensor import widening
from tensor.kernels import run_kernel
from tensor.tape.recording import record, wrap_recorded


def _finish(
    name: str,
    inputs: tuple[Tensor | None, ...],
    values: Callable[[], Array],
    reduction: str,
    **parameters: float,
) -> Tensor:
    """Compute the loss of each element with `values`, reduce the losses, and record the op."""
    out, share = run_kernel(lambda: reduced(values(), reduction))
    node = record(RULES[name], inputs, out, {"share": share, **parameters})
    return wrap_recorded(out, node)


@widening
def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return the squared difference of `input` and `target`, which have the same shape.

    Parameters
    ----------
    input, target
        Any shape.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.mse_loss(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()
    2.0
    """
    x, y = pair_of("mse_loss", input, target, reduction)

    def values() -> Array:
        difference = np.asarray(x - y)
        difference *= difference
        return difference

    return _finish("mse_loss", (input, target), values, reduction)


@widening
def l1_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return the absolute difference of `input` and `target`, with the arguments of ``mse_loss``.

    They may be complex.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.l1_loss(tensor.tensor([1.0, 2.0]), tensor.tensor([1.0, 4.0])).item()
    1.0
    """
    given = array_of("l1_loss", "input", input), array_of("l1_loss", "target", target)
    if any(np.iscomplexobj(x) for x in given):
        check_reduction("l1_loss", reduction)
        check_same_shape("l1_loss", *given)
        return reduce_losses((input - target).abs(), reduction)
    x, y = pair_of("l1_loss", input, target, reduction)

    def values() -> Array:
        difference = np.asarray(x - y)
        np.abs(difference, out=difference)
        return difference

    return _finish("l1_loss", (input, target), values, reduction)


@widening
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Return the Huber loss: quadratic for differences below `delta`, linear beyond (Huber, 1964).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.huber_loss(tensor.tensor([0.0, 0.0]), tensor.tensor([1.0, 3.0])).item()
    1.5
    """
    check_delta("huber_loss", delta)
    if delta <= 0:
        raise InvalidArgumentError(f"huber_loss: delta must be above 0, not {shown(delta)}")
    x, y = pair_of("huber_loss", input, target, reduction)

    def kernel(x: Array, y: Array) -> Array:
        distance = np.abs(x - y)
        near = np.minimum(distance, delta)
        return np.asarray(near * (distance - 0.5 * near))

    def values() -> Array:
        return np.asarray(with_numbers(kernel, x, y))

    return _finish("huber_loss", (input, target), values, reduction, delta=delta)


@widening
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Return ``huber_loss(..., delta=beta) / beta``. It is the absolute difference if `beta` is 0.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.smooth_l1_loss(tensor.tensor([0.0, 0.0]), tensor.tensor([1.0, 3.0])).item()
    1.5
    """
    if beta < 0:
        raise InvalidArgumentError(f"smooth_l1_loss: beta must be at least 0, not {shown(beta)}")
    if beta == 0:
        return l1_loss(input, target, reduction)
    x, y = pair_of("smooth_l1_loss", input, target, reduction)

    def kernel(x: Array, y: Array) -> Array:
        distance = np.abs(x - y)
        near = np.minimum(distance, beta)
        return np.asarray(near / beta * (distance - 0.5 * near))

    def values() -> Array:
        return np.asarray(with_numbers(kernel, x, y))

    return _finish("smooth_l1_loss", (input, target), values, reduction, beta=beta)


@widening
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the binary cross entropy of probabilities. Logarithms are clamped to at least -100.

    Parameters
    ----------
    input
        Probabilities, from 0 to 1, of any shape.
    target
        The target probabilities, in the same shape.
    weight
        The weight of each element. It broadcasts to the input's shape, and may require a gradient.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ, or a probability is below 0 or above 1.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.functional.binary_cross_entropy(tensor.tensor([0.5]), tensor.tensor([1.0])).item(), 4)
    0.6931
    """
    name = "binary_cross_entropy"
    x, y = pair_of(name, input, target, reduction)
    if x.size and not (x.min() >= 0 and x.max() <= 1):
        raise InvalidArgumentError(
            f"{name}: input must hold probabilities from 0 to 1, but it holds {shown(_outside(x).item())}. "
            "For logits use binary_cross_entropy_with_logits"
        )
    counts = _broadcast(name, "weight", weight, x)

    def values() -> Array:
        yes, no = np.maximum(np.log(x), -100), np.maximum(np.log1p(-x), -100)
        return _weighted(-(y * yes + (1 - y) * no), counts, x)

    return _finish(name, (input, target, weight), values, reduction)


@widening
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Return the binary cross entropy of logits: the probability is ``sigmoid(input)``.

    Parameters
    ----------
    input
        Logits of any shape.
    target
        Probabilities in the same shape.
    weight
        The weight of each element. It broadcasts to the input's shape, and may require a gradient.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.
    pos_weight
        The weight of positive examples. It broadcasts to the input's shape, and may require a gradient.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.binary_cross_entropy_with_logits(tensor.tensor([-9e9]), tensor.tensor([0.0])).item()
    0.0
    """
    name = "binary_cross_entropy_with_logits"
    x, y = pair_of(name, input, target, reduction)
    yes_counts = _broadcast(name, "pos_weight", pos_weight, x)
    counts = _broadcast(name, "weight", weight, x)

    def values() -> Array:
        # log(1 + exp(-x)) without overflow, in two parts, so that values near 0 keep their digits.
        tail, rest = np.log1p(np.exp(-np.abs(x))), np.maximum(-x, 0)
        if yes_counts is None:
            return _weighted((1 - y) * x + rest + tail, counts, x)
        loss_of_yes, loss_of_no = rest + tail, np.maximum(x, 0) + tail
        return _weighted((1 - y) * loss_of_no + yes_counts * y * loss_of_yes, counts, x)

    return _finish(name, (input, target, weight, pos_weight), values, reduction)


def _outside(x: Array) -> Array:
    """Return the first element that is not from 0 to 1."""
    first: Array = x[~((x >= 0) & (x <= 1))].ravel()[0]
    return first


def _weighted(values: Array, counts: Array | None, like: Array) -> Array:
    """Return `values` times their weights, in the dtype of `like`."""
    return np.asarray(values if counts is None else values * counts, like.dtype)


def _broadcast(name: str, what: str, x: Tensor | None, like: Array) -> Array | None:
    if x is None:
        return None
    array = array_of(name, what, x)
    try:
        return np.broadcast_to(array, like.shape)
    except ValueError:
        raise InvalidArgumentError(
            f"{name}: {what} must broadcast to the input's shape, {like.shape}, but its shape is "
            f"{array.shape}"
        ) from None
