"""Adamax."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import SHARE, bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor
    from tensor.lowlevel import Array


class Adamax(Optimizer):
    """Adamax: Adam with the infinity norm of gradients instead of the second moment (Kingma and Ba, 2015).

    Parameters
    ----------
    betas
        The decay rates of the average of the gradient, and of its infinity norm.
    eps
        Added to the absolute value of each gradient.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.Adamax([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.9
    """

    _bounds = bounds("lr", "eps", "weight_decay", betas=SHARE)
    _counter = "step"

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize)
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:  # noqa: ARG002
        return ("exp_avg", "exp_inf")

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        sign, (beta1, beta2) = -1 if group["maximize"] else 1, group["betas"]
        size = group["lr"] / (1 - beta1 ** (steps + 1))
        return sign, group["weight_decay"], 1 - beta1, beta2, group["eps"], size

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, first, stays, eps, size = numbers
        m, largest = state
        g = g * sign
        if decay:
            g = g + p * decay
        m += (g - m) * first
        np.maximum(largest * stays, np.abs(g) + eps, out=largest)
        p -= m / largest * size
