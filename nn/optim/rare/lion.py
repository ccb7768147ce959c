"""Lion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import SHARE, bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor
    from tensor.lowlevel import Array


class Lion(Optimizer):
    """Lion: steps of equal size along the sign of the momentum (Chen et al., 2023).

    Parameters
    ----------
    lr
        The learning rate, usually 3 to 10 times smaller than for ``AdamW``.
    betas
        The weight of the momentum in the step, and the decay rate of the momentum.
    weight_decay
        Each step subtracts ``lr * weight_decay`` times the parameter.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.Lion([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.9
    """

    _bounds = bounds("lr", "weight_decay", betas=SHARE)

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize)
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:  # noqa: ARG002
        return ("exp_avg",)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        sign, (beta1, beta2), lr = -1 if group["maximize"] else 1, group["betas"], group["lr"]
        return 1 - lr * group["weight_decay"], sign, beta1, 1 - beta1, beta2, 1 - beta2, lr

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        shrink, sign, keeps, adds, stays, enters, rate = numbers
        (m,) = state
        p *= shrink
        g = g * sign
        p -= np.sign(m * keeps + g * adds) * rate
        m[...] = m * stays + g * enters
