"""Connectionist temporal classification (Graves et al., 2006)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import tensor as tn
from nn.functional.checks import array_of, check_reduction, floating_array_of, reduce_losses
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import shown
from tensor.core.tensor import TensorCore, widening
from tensor.kernels import xp
from tensor.ops.dispatch import apply
from tensor.tape.rules.table import define

# Replaces log(0). It is finite, because the difference of two infinities is nan.
_LOG_ZERO = -1e30


class _Paths:
    """The positions of each target: its labels, with a blank before, between and after them.

    A path is an alignment of a target with the input: one position at each time step.

    Parameters
    ----------
    targets
        The labels, shape ``(batch, most labels)``. Values after the end of a target are ignored.
    label_counts, steps
        The number of labels and of time steps of each sample.
    blank
        The class index of the blank.
    """

    def __init__(self, targets: Array, label_counts: Array, steps: Array, blank: int) -> None:
        batch, most = targets.shape
        self.steps = steps
        self.labels = np.full((batch, 2 * most + 1), blank, np.intp)
        self.labels[:, 1::2] = targets
        self.rows = np.arange(batch)[:, None]
        self.last = 2 * label_counts  # the index of the last blank
        place = np.arange(2 * most + 1)
        self.place = place
        # A path may skip the blank between two different labels.
        self.skips = np.zeros(self.labels.shape, bool)
        self.skips[:, 2:] = (self.labels[:, 2:] != blank) & (self.labels[:, 2:] != self.labels[:, :-2])
        self.begins = np.broadcast_to(place <= 1, self.labels.shape)
        self.ends = (place == self.last[:, None]) | (place == self.last[:, None] - 1)

    def emissions(self, xp: Any, log_probs: Any) -> Any:
        """Return the log-probability of each label at each time, shape ``(time, batch, positions)``."""
        found = log_probs[:, self.rows, self.labels]
        return xp.where(found > _LOG_ZERO, found, _LOG_ZERO)

    def forward(self, xp: Any, emissions: Any) -> list[Any]:
        """Return, for each time, the total log-probability of the paths from the start to each position."""
        one, two = np.maximum(self.place - 1, 0), np.maximum(self.place - 2, 0)
        found: list[Any] = []
        for now in emissions:
            if not found:
                found.append(xp.where(self.begins, now, _LOG_ZERO))
                continue
            before = found[-1]
            stepped = xp.where(self.place >= 1, before[:, one], _LOG_ZERO)
            skipped = xp.where(self.skips, before[:, two], _LOG_ZERO)
            found.append(xp.logaddexp(xp.logaddexp(before, stepped), skipped) + now)
        return found

    def backward(self, xp: Any, emissions: Any) -> list[Any]:
        """Return, for each time, the total log-probability of the paths from each position to the end."""
        most = self.place.size - 1
        one, two = np.minimum(self.place + 1, most), np.minimum(self.place + 2, most)
        skips = np.concatenate([self.skips[:, 2:], np.zeros_like(self.skips[:, :2])], axis=1)
        found: list[Any] = []
        for time in reversed(range(emissions.shape[0])):
            now = emissions[time]
            ending = xp.where(self.ends, now, _LOG_ZERO)
            if not found:
                found.append(ending)
                continue
            after = found[-1]
            stepped = xp.where(self.place < most, after[:, one], _LOG_ZERO)
            skipped = xp.where(skips, after[:, two], _LOG_ZERO)
            going_on = xp.logaddexp(xp.logaddexp(after, stepped), skipped) + now
            found.append(xp.where((time < self.steps - 1)[:, None], going_on, ending))
        return found[::-1]

    def log_likelihoods(self, xp: Any, forward: list[Any]) -> Any:
        """Return the log-probability of each target."""
        rows, last = self.rows[:, 0], self.last
        if not forward:
            return np.where(last == 0, 0.0, _LOG_ZERO)
        found = np.where(last == 0, 0.0, _LOG_ZERO)  # without time steps: log(1) for a target without labels
        for time in sorted(set((self.steps - 1).tolist()) - {-1}):
            reached = forward[time]
            end = reached[rows, last]
            label = xp.where(last > 0, reached[rows, np.maximum(last - 1, 0)], _LOG_ZERO)
            found = xp.where(self.steps == time + 1, xp.logaddexp(end, label), found)
        return found


def _losses(log_probs: Array, paths: _Paths) -> Array:
    found = paths.log_likelihoods(xp, paths.forward(xp, paths.emissions(xp, log_probs)))
    return np.asarray(np.where(found < _LOG_ZERO / 2, np.inf, -found), log_probs.dtype)


def _by_log_probs(xp: Any, g: Any, log_probs: Any, paths: _Paths) -> Any:
    """Return the derivative by the logits of the softmax instead of by `log_probs`, as PyTorch does."""
    emissions = paths.emissions(xp, log_probs)
    forward, backward = paths.forward(xp, emissions), paths.backward(xp, emissions)
    likelihood = paths.log_likelihoods(xp, forward)
    is_possible = likelihood > _LOG_ZERO / 2
    if not forward:
        return log_probs * 0
    # At each time, each path is at one position. Both directions include its emission: subtract it once.
    through = xp.stack(forward) + xp.stack(backward) - emissions - likelihood[:, None]
    shares = xp.exp(xp.where(is_possible[:, None], through, _LOG_ZERO))
    times = np.arange(len(forward))[:, None, None]
    key = tuple(np.broadcast_arrays(times, paths.rows, paths.labels))
    gathered = xp.scatter_add(shares, key, log_probs.shape)
    # The gradient of an impossible target is nan, or 0 if `g` is 0, as with `zero_infinity`.
    g = xp.where(is_possible | (g == 0), g, np.nan)
    is_within = np.arange(len(forward))[:, None] < paths.steps
    return xp.where(is_within[..., None], (xp.exp(log_probs) - gathered) * g[:, None], 0.0)


_RULE = define("ctc_loss", log_probs=_by_log_probs)


@widening
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the negative log-likelihood of targets, summed over all alignments with the input.

    Parameters
    ----------
    log_probs
        Log-probabilities, as ``log_softmax`` returns them, shape ``(time, batch, classes)`` or ``(time,
        classes)``. As in PyTorch, the gradient is that of the logits of the ``log_softmax``.
    targets
        Class indices without `blank`: shape ``(batch, most labels)``, or concatenated in ``(sum of
        target_lengths,)``.
    input_lengths
        The number of time steps of each sample.
    target_lengths
        The number of labels of each target.
    blank
        The class index of the blank.
    reduction
        ``"mean"`` of the losses, each divided by the length of its target, ``"sum"`` or ``"none"``.
    zero_infinity
        Replace the infinite losses of targets that are too long for their input, and their gradients, by 0.

    Raises
    ------
    IndexError
        If a target or `blank` is not a class index.
    ValueError
        If shapes or lengths do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> logs = tensor.full((2, 1, 2), 0.5).log()
    >>> loss = nn.functional.ctc_loss(logs, tensor.tensor([[1]]), [2], [1])
    >>> round(loss.item(), 4)  # three of four paths produce the target
    0.2877
    """
    name = "ctc_loss"
    check_reduction(name, reduction)
    x = floating_array_of(name, "log_probs", log_probs)
    if x.ndim not in (2, 3):
        raise ValueError(
            f"{name}: log_probs must have shape (time, batch, classes) or (time, classes), not {x.shape}"
        )
    is_batch = x.ndim == 3
    batched = log_probs if is_batch else log_probs[:, None]
    time, batch, classes = batched.shape
    if not 0 <= blank < classes:
        raise IndexError(
            f"{name}: blank must be a class of log_probs, from 0 to {classes - 1}, not {shown(blank)}"
        )
    steps = _lengths(name, "input_lengths", input_lengths, batch)
    counts = _lengths(name, "target_lengths", target_lengths, batch)
    if (steps > time).any():
        raise ValueError(
            f"{name}: input_lengths must be at most {time}, the time steps of log_probs, not {steps.max()}"
        )
    labels = _labels(name, array_of(name, "targets", targets), counts, is_batch)
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        raise IndexError(
            f"{name}: targets must hold classes of log_probs, from 0 to {classes - 1}, not {labels[wrong][0]}"
        )
    paths = _Paths(labels, counts, steps, blank)
    losses = apply(_RULE, lambda array: _losses(array, paths), (batched,), paths=paths)
    if zero_infinity:
        losses = tn.where(losses == np.inf, 0.0, losses)
    if reduction == "mean":
        return reduce_losses(losses / np.maximum(counts, 1).astype(x.dtype), "mean")
    return reduce_losses(losses if is_batch else losses[0], reduction)


def _lengths(name: str, what: str, given: Any, batch: int) -> Array:
    array = np.array(array_of(name, what, given) if isinstance(given, TensorCore) else given)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name}: {what} must hold integers, not {array.dtype}")
    array = array.reshape(-1).astype(np.intp)
    if array.shape != (batch,) or (array < 0).any():
        raise ValueError(
            f"{name}: {what} must hold an integer of at least 0 for each of {batch} samples, not "
            f"{shown(array.tolist())}"
        )
    return array


def _labels(name: str, targets: Array, counts: Array, is_batch: bool) -> Array:
    """Return the labels of each target in one row, followed by zeros."""
    if targets.dtype.kind not in "iu":
        raise TypeError(f"{name}: targets must hold class indices (integers), not {targets.dtype}")
    most = int(counts.max(initial=0))
    rows = np.zeros((counts.size, most), np.intp)
    is_label = np.arange(most) < counts[:, None]
    if is_batch and targets.ndim == 2:
        if targets.shape[0] != counts.size or targets.shape[1] < most:
            raise ValueError(
                f"{name}: targets must have {counts.size} rows of at least {most} labels, as target_lengths "
                f"says, not shape {targets.shape}"
            )
        rows[is_label] = targets[:, :most][is_label]
    elif targets.ndim == 1 and (targets.size == counts.sum() if is_batch else targets.size >= most):
        rows[is_label] = targets[: counts.sum()]
    else:
        raise ValueError(
            f"{name}: concatenated targets must have shape ({counts.sum()},), the sum of target_lengths, not "
            f"{targets.shape}"
        )
    return rows
