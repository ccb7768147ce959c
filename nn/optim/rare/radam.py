"""RAdam."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nn.optim.adam import Averaging

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nn.optim.optimizer import Group
    from tensor import Tensor
    from tensor.lowlevel import Array


class RAdam(Averaging):
    """RAdam: Adam with smaller first steps, while the second moment is uncertain (Liu et al., 2020).

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.RAdam([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.5
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        size = group["lr"] / (1 - beta1 ** (steps + 1))
        rectified = _rectification(beta2, steps + 1)
        return *self._average_numbers(group), group["eps"], size, rectified

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        *averages, eps, size, rectified = numbers
        m, v = state
        self._average(averages, p, g, m, v)
        if rectified:
            p -= m / (np.sqrt(v) + eps) * (size * rectified)
        else:
            p -= m * size


def _rectification(beta2: float, step: int) -> float:
    """Return the factor of the ratio of the averages, or 0 if the second has too few gradients."""
    unbiased = 1 - beta2**step
    most = 2 / (1 - beta2) - 1
    length = most - 2 * step * beta2**step / unbiased  # of the moving average, in steps
    if length <= 5:
        return 0.0
    variance = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
    return math.sqrt(variance * unbiased)
