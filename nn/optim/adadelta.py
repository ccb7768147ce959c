"""Adadelta."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import Bound, bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor
    from tensor.lowlevel import Array


class Adadelta(Optimizer):
    """Adadelta: scales steps by running averages of squared gradients and squared steps (Zeiler, 2012).

    Parameters
    ----------
    lr
        The learning rate, a factor of each step.
    rho
        The decay rate of both averages.
    eps
        Added to both averages before the square roots.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.Adadelta([x], lr=100.0)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.6838
    """

    _bounds = bounds("lr", "eps", "weight_decay", rho=Bound(0.0, 1.0, includes_high=True))
    _counter = "step"

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:  # noqa: ARG002
        return ("square_avg", "acc_delta")

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        sign, rho = -1 if group["maximize"] else 1, group["rho"]
        return sign, group["weight_decay"], rho, 1 - rho, group["eps"], group["lr"]

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, stays, enters, eps, rate = numbers
        squares, steps = state
        g = g * sign
        if decay:
            g = g + p * decay
        squares[...] = squares * stays + g * g * enters
        step = np.sqrt(steps + eps) / np.sqrt(squares + eps) * g
        steps[...] = steps * stays + step * step * enters
        p -= step * rate
