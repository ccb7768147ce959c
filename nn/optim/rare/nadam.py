"""NAdam."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nn.optim.adam import Averaging
from nn.optim.options import SHARE, bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nn.optim.optimizer import Group
    from tensor import Tensor
    from tensor.lowlevel import Array


class NAdam(Averaging):
    """NAdam: Adam with Nesterov momentum (Dozat, 2016).

    Parameters
    ----------
    momentum_decay
        The rate at which the momentum grows from half of its value to its full value.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.NAdam([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.8944
    """

    _bounds = bounds("lr", "eps", "weight_decay", "momentum_decay", betas=SHARE)

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = dict(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:
        return (*super()._tensors(group), "mu_product")

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:
        if name == "mu_product":
            return self._unowned(np.ones((), np.float32))  # one number for the whole parameter
        return super()._new_state(group, x, name)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        share, next_share = (
            beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"])) for step in (steps + 1, steps + 2)
        )
        root = math.sqrt(1 - beta2 ** (steps + 1))
        averages = self._average_numbers(group)
        return *averages, group["eps"] * root, group["lr"] * root, share, next_share

    def _update_plainly(self, numbers: tuple[float, ...], arrays: list[Array]) -> None:
        *others, size, share, next_share = numbers
        *rows, shares = arrays
        shares *= share
        product = float(shares)
        by_gradient = size * (1 - share) / (1 - product)
        by_average = size * next_share / (1 - product * next_share)
        super()._update_plainly((*others, by_gradient, by_average), rows)

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        *averages, eps, by_gradient, by_average = numbers
        m, v = state
        g = self._average(averages, p, g, m, v)
        p -= (g * by_gradient + m * by_average) / (np.sqrt(v) + eps)
