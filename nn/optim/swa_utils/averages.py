"""Functions that update an average with a model's parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tensor import Tensor, no_grad
from tensor._dtypes import is_inexact
from tensor._errors import shown

AvgFn = Callable[[Tensor, Tensor, Tensor | int], Tensor]
MultiAvgFn = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]


def get_ema_avg_fn(decay: float = 0.999) -> AvgFn:
    """Return a function for ``AveragedModel(avg_fn=)``: the exponential moving average of one parameter.

    Parameters
    ----------
    decay
        The decay rate of the average, from 0 to 1.

    Raises
    ------
    ValueError
        If `decay` is out of its range.

    Examples
    --------
    >>> import nn, tensor
    >>> average = nn.optim.swa_utils.get_ema_avg_fn(0.75)
    >>> average(tensor.tensor([0.0]), tensor.tensor([4.0]), 1).tolist()
    [1.0]
    """
    _require_rate(decay)
    return partial(_exponential_average, decay)


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAvgFn:
    """Return a function for ``AveragedModel(multi_avg_fn=)``: exponential moving averages of lists, in place.

    Parameters
    ----------
    decay
        The decay rate of the average, from 0 to 1.

    Raises
    ------
    ValueError
        If `decay` is out of its range.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([0.0])
    >>> nn.optim.swa_utils.get_ema_multi_avg_fn(0.75)([x], [tensor.tensor([4.0])], 1)
    >>> x.tolist()
    [1.0]
    """
    _require_rate(decay)
    return partial(_update_exponential_averages, decay)


def get_swa_avg_fn() -> AvgFn:
    """Return a function for ``AveragedModel(avg_fn=)``: the mean of one parameter over all updates.

    Examples
    --------
    >>> import nn, tensor
    >>> average = nn.optim.swa_utils.get_swa_avg_fn()
    >>> average(tensor.tensor([0.0]), tensor.tensor([4.0]), 3).tolist()
    [1.0]
    """
    return _mean


def get_swa_multi_avg_fn() -> MultiAvgFn:
    """Return a function for ``AveragedModel(multi_avg_fn=)``: the means of lists over all updates, in place.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([0.0])
    >>> nn.optim.swa_utils.get_swa_multi_avg_fn()([x], [tensor.tensor([4.0])], 3)
    >>> x.tolist()
    [1.0]
    """
    return _update_means


def _require_rate(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(f"decay must be from 0 to 1, not {shown(decay)}")


@no_grad()
def _exponential_average(decay: float, averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:  # noqa: ARG001
    return averaged * decay + current * (1 - decay)


@no_grad()
def _update_exponential_averages(
    decay: float,
    averaged: Sequence[Tensor],
    current: Sequence[Tensor],
    count: Tensor | int,  # noqa: ARG001
) -> None:
    for x, y in zip(averaged, current, strict=True):
        if is_inexact(x.dtype):
            x.lerp_(y, 1 - decay)
        else:
            x.copy_(x * decay + y * (1 - decay))


@no_grad()
def _mean(averaged: Tensor, current: Tensor, count: Tensor | int) -> Tensor:
    return averaged + (current - averaged) / (count + 1)


@no_grad()
def _update_means(averaged: Sequence[Tensor], current: Sequence[Tensor], count: Tensor | int) -> None:
    for x, y in zip(averaged, current, strict=True):
        x.copy_(_mean(x, y, count))
