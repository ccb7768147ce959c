"""Margin losses and other losses of scores and distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tensor as tn
from nn.functional.checks import (
    array_of,
    check_reduction,
    check_same_shape,
    floating_array_of,
    floating_target,
    pair_of,
    reduce_losses,
)
from nn.functional.distances import pairwise_distance
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import shown
from tensor.core.tensor import composite, snapshot, widening


@widening
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: str = "mean"
) -> Tensor:
    """Return ``max(0, -target * (input1 - input2) + margin)``, the margin ranking loss.

    Parameters
    ----------
    input1, input2
        Scores, any shape, the same for both.
    target
        In the same shape: 1 if `input1` should be larger, -1 if `input2` should be larger.
    margin
        The difference from which the loss is 0.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> a, b = tensor.tensor([1.0, 1.0]), tensor.tensor([3.0, 0.0])
    >>> nn.functional.margin_ranking_loss(a, b, tensor.tensor([1, 1]), reduction="none").tolist()
    [2.0, 0.0]
    """
    name = "margin_ranking_loss"
    check_reduction(name, reduction)
    x = floating_array_of(name, "input1", input1)
    check_same_shape(name, x, floating_array_of(name, "input2", input2), "input1", "input2")
    check_same_shape(name, x, array_of(name, "target", target), "input1")
    return reduce_losses(
        (margin - floating_target(input1, target) * (input1 - input2)).clamp(min=0), reduction
    )


@composite
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: str = "mean"
) -> Tensor:
    """Return the distance of similar pairs, and ``max(0, margin - distance)`` of dissimilar pairs.

    Parameters
    ----------
    input
        Distances, any shape.
    target
        In the same shape: 1 for a similar pair, -1 for a dissimilar pair.
    margin
        The distance of dissimilar pairs from which the loss is 0.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([0.25, 0.25, 3.0]), tensor.tensor([1, -1, -1])
    >>> nn.functional.hinge_embedding_loss(x, y, reduction="none").tolist()
    [0.25, 0.75, 0.0]
    """
    pair_of("hinge_embedding_loss", input, target, reduction)
    dissimilar = tn.where(target != 1, (margin - input).clamp(min=0), 0.0)
    return reduce_losses(dissimilar + tn.where(target != -1, input, 0.0), reduction)


@widening
def soft_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return log(1 + exp(-target * input)): the logistic loss, with targets 1 and -1.

    Parameters
    ----------
    input
        Logits, any shape.
    target
        In the same shape, 1 or -1.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.functional.soft_margin_loss(tensor.tensor([0.0]), tensor.tensor([1.0])).item(), 4)
    0.6931
    """
    pair_of("soft_margin_loss", input, target, reduction)
    return reduce_losses(tn.softplus(-floating_target(input, target) * input), reduction)


@widening
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: str = "mean"
) -> Tensor:
    """Return 1 - cosine of similar pairs, and ``max(0, cosine - margin)`` of dissimilar pairs.

    Parameters
    ----------
    input1, input2
        Vectors, shape ``(batch, size)`` or ``(size,)``.
    target
        Shape ``(batch,)`` or ``()``: 1 for a similar pair, -1 for a dissimilar pair.
    margin
        The cosine of dissimilar pairs up to which the loss is 0, from -1 to 1.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([[1.0, 0.0]]), tensor.tensor([[0.0, 1.0]])
    >>> nn.functional.cosine_embedding_loss(x, y, tensor.tensor([1])).item()
    1.0
    """
    name = "cosine_embedding_loss"
    check_reduction(name, reduction)
    x = floating_array_of(name, "input1", input1)
    check_same_shape(name, x, floating_array_of(name, "input2", input2), "input1", "input2")
    y = array_of(name, "target", target)
    if x.ndim not in (1, 2) or y.shape != x.shape[:-1]:
        raise ValueError(
            f"{name}: the shapes of inputs and target must be (batch, size) and (batch,), or (size,) and (), "
            f"not {x.shape} and {y.shape}"
        )
    # Add 1e-12, so that the cosine of zero vectors is finite.
    squares = ((a * a).sum(dim=-1) + 1e-12 for a in (input1, input2))
    first, second = squares
    cosines = (input1 * input2).sum(dim=-1) / (first * second).sqrt()
    similar = tn.where(target == 1, 1 - cosines, 0.0)
    return reduce_losses(similar + tn.where(target == -1, (cosines - margin).clamp(min=0), 0.0), reduction)


@composite
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, the triplet margin loss.

    Parameters
    ----------
    anchor, positive, negative
        Vectors, shape ``(batch, size)`` or ``(size,)``, the same for all.
    margin
        The difference of distances from which the loss is 0. It must be positive.
    p, eps
        The arguments of ``pairwise_distance``.
    swap
        Replace d(anchor, negative) by d(positive, negative) if that is smaller (Balntas et al., 2016).
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ, or the margin is not above 0.

    Examples
    --------
    >>> import nn, tensor
    >>> a, b, c = (tensor.tensor([[v, 0.0]]) for v in (0.0, 2.0, 1.0))
    >>> round(nn.functional.triplet_margin_loss(a, b, c).item(), 4)
    2.0
    """

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return _triplets("triplet_margin_loss", (anchor, positive, negative), distance, margin, swap, reduction)


@composite
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Return ``triplet_margin_loss`` with the given distance function, by default ``pairwise_distance``.

    Examples
    --------
    >>> import nn, tensor
    >>> a, b, c = (tensor.tensor([[v, 0.0]]) for v in (0.0, 2.0, 1.0))
    >>> def taxi(x, y):
    ...     return (x - y).abs().sum(dim=-1)
    >>> loss = nn.functional.triplet_margin_with_distance_loss
    >>> loss(a, b, c, distance_function=taxi).item()
    2.0
    """
    name = "triplet_margin_with_distance_loss"
    distance = distance_function or pairwise_distance
    return _triplets(name, (anchor, positive, negative), distance, margin, swap, reduction)


def _triplets(
    name: str,
    triplet: tuple[Tensor, Tensor, Tensor],
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    check_reduction(name, reduction)
    if margin <= 0:
        raise ValueError(f"{name}: margin must be above 0, not {shown(margin)}")
    anchor, positive, negative = triplet
    x = floating_array_of(name, "anchor", anchor)
    for what, other in (("positive", positive), ("negative", negative)):
        y = floating_array_of(name, what, other)
        if x.shape != y.shape:
            raise ValueError(
                f"{name}: anchor and {what} must have the same shape, not {x.shape} and {y.shape}"
            )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = tn.minimum(far, distance(positive, negative))
    return reduce_losses((margin + near - far).clamp(min=0), reduction)


@widening
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the sum of ``max(0, margin - x[target] + x[i]) ** p`` over other classes i.

    The sum is divided by the number of classes.

    Parameters
    ----------
    input
        Scores, shape ``(batch, classes)`` or ``(classes,)``.
    target
        Class indices, shape ``(batch,)`` or ``()``. One index in shape ``(1,)`` is a batch of one.
    p
        1, or 2 for squares.
    margin
        The difference from the target's score from which the loss is 0.
    weight
        The weight of each class, shape ``(classes,)``.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    IndexError
        If a target is not a class index.
    ValueError
        If shapes do not fit, or `p` is neither 1 nor 2.

    Examples
    --------
    >>> import nn, tensor
    >>> scores = tensor.tensor([[0.0, 2.0, 1.5]])
    >>> round(nn.functional.multi_margin_loss(scores, tensor.tensor([1]), reduction="sum").item() * 3, 4)
    0.5
    """
    name = "multi_margin_loss"
    check_reduction(name, reduction)
    if p not in (1, 2):
        raise ValueError(f"{name}: p must be 1 or 2, not {shown(p)}")
    x = _scores(name, input)
    if x.ndim == 1 and target.shape == (1,):
        input = input.reshape(1, -1)
        x = _scores(name, input)
    if x.shape[-1] == 0:
        raise ValueError(f"{name}: input must have at least one class, but its shape is {x.shape}")
    classes = _indices(name, target, x.shape[:-1], "class indices", x.shape[-1])
    losses = tn.relu(margin - _picked(input, classes[..., None]) + input)
    if p == 2:
        losses = losses * losses
    if weight is not None:
        _check_weight(name, weight, x)
        losses = losses * weight[classes[..., None]]
    is_other = np.arange(x.shape[-1]) != classes[..., None]
    return reduce_losses(tn.where(is_other, losses, 0.0).sum(dim=-1) / x.shape[-1], reduction)


@widening
def multilabel_margin_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Return the sum of ``max(0, 1 - x[target] + x[i])`` over targets and other classes i.

    The sum is divided by the number of classes.

    Parameters
    ----------
    input
        Scores, shape ``(batch, classes)`` or ``(classes,)``.
    target
        Class indices in the same shape. -1 ends a row: later indices are ignored.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    IndexError
        If a target is not a class index.
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> scores, classes = tensor.tensor([0.0, 2.0, 1.5]), tensor.tensor([1, -1, 0])
    >>> round(nn.functional.multilabel_margin_loss(scores, classes, reduction="sum").item() * 3, 4)
    0.5
    """
    name = "multilabel_margin_loss"
    check_reduction(name, reduction)
    x = _scores(name, input)
    check_same_shape(name, x, array_of(name, "target", target))
    count = x.shape[-1]
    if count == 0:
        raise ValueError(f"{name}: input must have at least one class, but its shape is {x.shape}")
    given = _indices(name, target, x.shape, "class indices", count, allows_end=True)
    counts = np.logical_and.accumulate(given >= 0, axis=-1)
    is_other = np.ones(x.shape, bool)
    places = np.nonzero(counts)
    is_other[(*places[:-1], given[places])] = False
    # The longest row gives the number of columns. Pad shorter rows with class 0, which is masked below.
    most = int(counts.sum(axis=-1).max(initial=0))
    counts, classes = counts[..., :most], np.where(counts, given, 0)[..., :most]
    losses = tn.relu(1 - _picked(input, classes)[..., None] + input[..., None, :])
    losses = tn.where(counts[..., None] & is_other[..., None, :], losses, 0.0)
    return reduce_losses(losses.sum(dim=(-1, -2)) / max(count, 1), reduction)


@composite
def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, reduction: str = "mean"
) -> Tensor:
    """Return the mean, over classes, of the binary cross entropy of logits.

    Parameters
    ----------
    input
        Logits, shape ``(*, classes)``.
    target
        0 or 1, in the same shape.
    weight
        The weight of each class, shape ``(classes,)``, or of each element, in the same shape.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.zeros((1, 3)), tensor.tensor([[1.0, 0.0, 1.0]])
    >>> round(nn.functional.multilabel_soft_margin_loss(x, y).item(), 4)
    0.6931
    """
    name = "multilabel_soft_margin_loss"
    x, _ = pair_of(name, input, target, reduction)
    if x.ndim == 0:
        raise ValueError(f"{name}: input must have shape (*, classes), not ()")
    target = floating_target(input, target)
    losses = -(target * tn.logsigmoid(input) + (1 - target) * tn.logsigmoid(-input))
    if weight is not None:
        _check_weight(name, weight, x)
        losses = losses * weight
    return reduce_losses(losses.mean(dim=-1), reduction)


def _scores(name: str, input: Tensor) -> Array:
    x = floating_array_of(name, "input", input)
    if x.ndim not in (1, 2):
        raise ValueError(f"{name}: input must have shape (batch, classes) or (classes,), not {x.shape}")
    return x


def _check_weight(name: str, weight: Tensor, x: Array) -> None:
    shape = array_of(name, "weight", weight).shape
    if shape != x.shape[-1:] and not (name == "multilabel_soft_margin_loss" and shape == x.shape):
        raise ValueError(
            f"{name}: weight must have one value for each class, shape {x.shape[-1:]}, not {shape}"
        )


def _indices(
    name: str, target: Tensor, shape: tuple[int, ...], what: str, count: int, *, allows_end: bool = False
) -> Array:
    """Return the checked class indices, as a copy: the target may be overwritten before backward."""
    y = array_of(name, "target", target)
    if y.dtype.kind not in "iu":
        raise TypeError(f"{name}: target must hold {what} (integers), not {y.dtype}")
    if y.shape != shape:
        raise ValueError(f"{name}: target must hold {what} in shape {shape}, not {y.shape}")
    y = snapshot(target)
    wrong = (y >= count) | (y < (-1 if allows_end else 0))
    if wrong.any():
        raise IndexError(
            f"{name}: target holds {y[wrong][0]}, but the input has {count} classes: class indices must be "
            f"from 0 to {count - 1}"
        )
    return y.astype(np.intp)


def _picked(x: Tensor, classes: Array) -> Tensor:
    """Return the elements of `x` at `classes` along its last dimension."""
    if x.ndim == 1:
        return x[classes]
    return x[np.arange(x.shape[0])[:, None], classes]
