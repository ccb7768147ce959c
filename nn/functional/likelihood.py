"""Cross entropy and negative log-likelihood.

The mean over a batch of logits and class indices is one op, which saves the logits and two numbers per row.
The other cases use ``log_softmax``, as in PyTorch.
"""

from __future__ import annotations

import numpy as np

import tensor as tn
from nn.functional.checks import array_of, check_probability, check_reduction, floating_array_of, is_wanted
from nn.functional.derivatives import RULES
from nn.functional.linear_maps import linear
from tensor import Tensor
from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import widening
from tensor.kernels import mean_cross_entropy, run_kernel
from tensor.ops.dispatch import apply
from tensor.ops.indexing import Key
from tensor.tape.recording import record, wrap_recorded

_RULE = RULES["cross_entropy"]
_INT64 = np.dtype(np.int64)


class _Classes:
    """Checked class indices as targets, and their weights."""

    def __init__(self, name: str, x: Array, target: Array, weight: Tensor | None, ignore_index: int) -> None:
        axis = self.axis = 1 if x.ndim > 1 else 0
        count = x.shape[axis]
        expected = x.shape[:axis] + x.shape[axis + 1 :]
        if target.shape != expected:
            raise InvalidArgumentError(
                f"{name}: for an input of shape {x.shape}, a target of class indices must have shape "
                f"{expected}, not {target.shape}"
            )
        # Copy the target, because it may be written to before backward or during the check.
        target = target.copy()
        # A mask of the elements that are not ignored; None if no element can be ignored.
        self.kept: Array | None = None
        wrong = (target < 0) | (target >= count)
        if wrong.any():
            self.kept = target != ignore_index
            wrong &= self.kept
            if wrong.any():
                raise IndexError(
                    f"{name}: target holds {target[wrong][0]}, but the input has {count} classes: class "
                    f"indices must be from 0 to {count - 1}"
                )
        elif 0 <= ignore_index < count:
            self.kept = target != ignore_index
        # Ignored elements use class 0 with weight 0.
        self.indices = target if self.kept is None else np.where(self.kept, target, 0)
        self.weight = _weight_of(name, weight, x)
        if is_wanted(weight):
            raise RuntimeError(
                f"{name}: a loss of class indices has no gradient for weight: pass weight.detach(), or "
                "probabilities as the target of cross_entropy"
            )
        self.counts: Array | None = None if self.weight is None else self.weight[self.indices]
        if self.kept is not None:
            self.counts = self.kept.astype(x.dtype) if self.counts is None else self.counts * self.kept

    def pick(self, name: str, logs: Tensor) -> Tensor:
        """Return ``-logs`` at each target, times the weight of the target."""
        places = np.ogrid[tuple(slice(n) for n in self.indices.shape)]
        key = Key.of((*places[: self.axis], self.indices, *places[self.axis :]))
        counts = self.counts

        def kernel(x: Array) -> Array:
            picked: Array = -x[key]
            # Replace, because minus infinity times a weight of 0 is nan.
            return picked if counts is None else np.where(counts == 0, x.dtype.type(0), picked * counts)

        parameters = {"key": key, "counts": counts, "shape": logs.shape}
        return apply(RULES[name], kernel, (logs,), **parameters)

    def reduce(self, losses: Tensor, reduction: str) -> Tensor:
        """Return the reduced loss. A mean divides by the sum of the targets' weights."""
        if reduction == "none":
            return losses
        if reduction == "sum":
            return losses.sum()
        total = self.indices.size if self.counts is None else float(self.counts.sum())
        return losses.sum() / total  # nan, as in PyTorch, if all elements are ignored


def _weight_of(name: str, weight: Tensor | None, x: Array) -> Array | None:
    """Return the weight of each class."""
    if weight is None:
        return None
    array = array_of(name, "weight", weight)
    if array.dtype != x.dtype:
        raise InvalidArgumentError(
            f"{name}: weight must have the input's dtype, {x.dtype}, not {array.dtype}: write "
            f"weight.to(tensor.{x.dtype})"
        )
    count = x.shape[1 if x.ndim > 1 else 0]
    if array.shape != (count,):
        raise InvalidArgumentError(
            f"{name}: weight must have one value for each class, shape ({count},), not {array.shape}"
        )
    return array


def _along(vector: Array, axis: int, ndim: int) -> Array:
    """Return `vector` in a shape that broadcasts along `axis`."""
    return vector.reshape([-1 if i == axis else 1 for i in range(ndim)])


@widening
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Return the cross entropy between logits and targets.

    Parameters
    ----------
    input
        Logits, shape ``(classes,)``, ``(batch, classes)`` or ``(batch, classes, *)``.
    target
        Class indices: integers in the input's shape without the classes. Or probabilities in the input's
        shape.
    weight
        The weight of each class, shape ``(classes,)``.
    ignore_index
        A class index to ignore.
    reduction
        ``"mean"`` (weighted by the classes' weights), ``"sum"`` or ``"none"``.
    label_smoothing
        The fraction of the target, from 0 to 1, to distribute evenly over all classes (Szegedy et al., 2016).

    Raises
    ------
    IndexError
        If a target is not a class index.
    ValueError
        If shapes do not fit.
    TypeError
        If logits are not floating.

    Examples
    --------
    >>> import nn, tensor
    >>> logits = tensor.tensor([[0.0, 0.0]])
    >>> round(nn.functional.cross_entropy(logits, tensor.tensor([1])).item(), 4)
    0.6931
    """
    name = "cross_entropy"
    check_reduction(name, reduction)
    check_probability(name, "label_smoothing", label_smoothing)
    x = floating_array_of(name, "input", input)
    y = array_of(name, "target", target)
    if x.ndim == 0:
        raise InvalidArgumentError(
            f"{name}: input must have shape (classes,), (batch, classes) or (batch, classes, *), not ()"
        )
    if is_floating(y.dtype):
        if ignore_index >= 0:
            raise InvalidArgumentError(
                f"{name}: ignore_index={ignore_index} requires a target of class indices, but this target "
                "holds probabilities: omit ignore_index"
            )
        return _with_probabilities(input, target, weight, reduction, label_smoothing)
    if y.dtype.kind not in "iu":
        raise TypeError(
            f"{name}: target must hold class indices (integers) or probabilities (floating), not {y.dtype}"
        )
    if weight is None and not label_smoothing and reduction == "mean" and x.ndim == 2 and ignore_index < 0:
        loss = _plain(input, target, x, y)
        if loss is not None:
            return loss
    classes = _Classes(name, x, y, weight, ignore_index)
    logs = tn.log_softmax(input, axis=classes.axis)
    losses = classes.pick("nll_loss", logs)
    if label_smoothing:
        losses = (1 - label_smoothing) * losses + _smooth(logs, classes, label_smoothing)
    return classes.reduce(losses, reduction)


def _smooth(logs: Tensor, classes: _Classes, label_smoothing: float) -> Tensor:
    """Return the loss for a uniform target, times `label_smoothing`."""
    axis = classes.axis
    share = -label_smoothing / logs.shape[axis]
    if classes.weight is None:
        smooth = share * logs.sum(dim=axis)
    else:
        smooth = (logs * _along(classes.weight * logs.dtype.type(share), axis, logs.ndim)).sum(dim=axis)
    return smooth if classes.kept is None else tn.where(classes.kept, smooth, 0.0)


def _plain(input: Tensor, target: Tensor, x: Array, y: Array) -> Tensor | None:
    """Return the mean cross entropy of a batch without options, or None to use the general code."""
    if y.shape != x.shape[:1] or y.dtype != _INT64 or x.dtype.char not in "fd" or not x.size:
        return None
    found = run_kernel(mean_cross_entropy, x, y)
    if found is None:  # a class is out of range or ignored
        return None
    out, tops, sums = found
    return wrap_recorded(out, record(_RULE, (input, target), out, {"tops": tops, "sums": sums}))


@widening
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """Return the cross entropy of ``linear(input, linear_weight, linear_bias)``.

    Parameters
    ----------
    input
        Shape ``(*, in_features)``.
    linear_weight
        Shape ``(classes, in_features)``, or ``(classes, *more, in_features)``; the logits have shape
        ``(batch, classes, *more)`` in that case.
    target, weight, reduction, ignore_index, label_smoothing
        As in ``cross_entropy``.
    options
        PyTorch's options for chunks. They have no effect here.

    Examples
    --------
    >>> import nn, tensor
    >>> x, weight = tensor.ones((1, 3)), tensor.zeros((2, 3))
    >>> round(nn.functional.linear_cross_entropy(x, weight, tensor.tensor([1])).item(), 4)
    0.6931
    """
    del options
    if linear_weight.ndim > 2 and input.ndim < 2:
        raise InvalidArgumentError(
            f"linear_cross_entropy: for a weight of shape {linear_weight.shape}, the input must have shape "
            f"(batch, {linear_weight.shape[-1]}), not {input.shape}"
        )
    rows = linear_weight.reshape((-1, linear_weight.shape[-1])) if linear_weight.ndim > 2 else linear_weight
    bias = None if linear_bias is None else linear_bias.reshape((-1,))
    logits = linear(input, rows, bias)
    if linear_weight.ndim > 2:
        logits = logits.reshape((*input.shape[:-1], *linear_weight.shape[:-1]))
    index = -100 if ignore_index is None else ignore_index
    return cross_entropy(logits, target, weight, index, reduction, label_smoothing)


def _with_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, label_smoothing: float
) -> Tensor:
    name = "cross_entropy"
    x, y = array_of(name, "input", input), array_of(name, "target", target)
    if x.shape != y.shape:
        raise InvalidArgumentError(
            f"{name}: a target of probabilities must have the input's shape, {x.shape}, not {y.shape}. A "
            "target of class indices must hold integers"
        )
    _weight_of(name, weight, x)  # checks it
    axis = 1 if x.ndim > 1 else 0
    aims = target.to(x.dtype)
    if label_smoothing:
        aims = aims * (1 - label_smoothing) + label_smoothing / x.shape[axis]
    if weight is not None:
        aims = aims * weight.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    losses = -(aims * tn.log_softmax(input, axis=axis)).sum(dim=axis)
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of classes, from log-probabilities.

    Parameters
    ----------
    input
        Log-probabilities, shape ``(classes,)``, ``(batch, classes)`` or ``(batch, classes, *)``.
    target
        Class indices: integers in the input's shape without the classes.
    weight
        The weight of each class, shape ``(classes,)``.
    ignore_index
        A class index to ignore.
    reduction
        ``"mean"`` (weighted by the classes' weights), ``"sum"`` or ``"none"``.

    Raises
    ------
    IndexError
        If a target is not a class index.
    ValueError
        If shapes do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.nll_loss(tensor.tensor([[-1.0, -2.0]]), tensor.tensor([1])).item()
    2.0
    """
    name = "nll_loss"
    check_reduction(name, reduction)
    x = floating_array_of(name, "input", input)
    y = array_of(name, "target", target)
    if x.ndim == 0:
        raise InvalidArgumentError(
            f"{name}: input must have shape (classes,), (batch, classes) or (batch, classes, *), not ()"
        )
    if y.dtype.kind not in "iu":
        raise TypeError(f"{name}: target must hold class indices (integers), not {y.dtype}")
    classes = _Classes(name, x, y, weight, ignore_index)
    return classes.reduce(classes.pick(name, input), reduction)
