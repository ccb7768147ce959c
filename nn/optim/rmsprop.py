"""RMSprop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor
    from tensor.lowlevel import Array


class RMSprop(Optimizer):
    """RMSprop: scales steps by a running average of the squared gradient (Tieleman and Hinton, 2012).

    Parameters
    ----------
    alpha
        The decay rate of the average.
    eps
        Added to the square root of the average.
    momentum
        The weight of the last step in the next one.
    centered
        Scale by an estimate of the variance (Graves, 2013).

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.RMSprop([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.0
    """

    _bounds = bounds("lr", "alpha", "eps", "weight_decay", "momentum")
    _counter = "step"
    _rule = "rmsprop"

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = dict(
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=centered,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        mean = ("grad_avg",) if group["centered"] else ()
        return ("square_avg", *mean, *momentum)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        sign, alpha = -1 if group["maximize"] else 1, group["alpha"]
        decay, is_centered = group["weight_decay"], float(group["centered"])
        return sign, decay, alpha, 1 - alpha, group["eps"], group["lr"], group["momentum"], is_centered

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, stays, enters, eps, rate, share, is_centered = numbers
        square, *held = state
        g = g * sign
        if decay:
            g = g + p * decay
        square[...] = square * stays + g * g * enters
        spread = square
        if is_centered:
            mean = held.pop(0)
            mean += (g - mean) * enters
            spread = square - mean * mean
        way = g / (np.sqrt(spread) + eps)
        if held:
            (step,) = held
            step[...] = way = step * share + way
        p -= way * rate
