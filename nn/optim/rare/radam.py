"""RAdam."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import SHARE, bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor
    from tensor.lowlevel import Array


class RAdam(Optimizer):
    """Adam whose first steps, when its second average is still uncertain, are smaller (Liu et al., 2020).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The step size.
    betas
        The decay of the averages of the gradient and of its square: their share that each step keeps.
    eps
        Added to the root of the second average.
    weight_decay
        The factor of the parameter that is added to its gradient.
    decoupled_weight_decay
        Subtract `weight_decay` times `lr` times the parameter, instead of adding the decay to the gradient.
    maximize
        Maximize the objective instead of minimizing it.

    Raises
    ------
    ValueError
        If an option is out of its range.

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

    _bounds = bounds("lr", "eps", "weight_decay", betas=SHARE)
    _counter = "step"

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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:  # noqa: ARG002
        return ("exp_avg", "exp_avg_sq")

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        is_decoupled = group["decoupled_weight_decay"]
        shrink, own_decay = (1 - lr * decay, 0) if is_decoupled else (1, decay)
        sign = -1 if group["maximize"] else 1
        size = lr / (1 - beta1 ** (steps + 1))
        rectified = _rectification(beta2, steps + 1)
        return shrink, sign, own_decay, 1 - beta1, beta2, 1 - beta2, group["eps"], size, rectified

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        shrink, sign, decay, first, stays, enters, eps, size, rectified = numbers
        m, v = state
        p *= shrink
        g = g * sign
        if decay:
            g = g + p * decay
        m += (g - m) * first
        v[...] = v * stays + g * g * enters
        if rectified:
            p -= m / (np.sqrt(v) + eps) * (size * rectified)
        else:
            p -= m * size


def _rectification(beta2: float, step: int) -> float:
    """Return what the ratio of the averages is multiplied by; 0 while too few gradients are in the second."""
    unbiased = 1 - beta2**step
    most = 2 / (1 - beta2) - 1
    length = most - 2 * step * beta2**step / unbiased  # of the average, in steps
    if length <= 5:
        return 0.0
    variance = (length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)
    return math.sqrt(variance * unbiased)
