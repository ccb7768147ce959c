"""NAdam."""

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


class NAdam(Optimizer):
    """Adam that looks ahead along its momentum, as Nesterov's does (Dozat, 2016).

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
    momentum_decay
        How fast the momentum grows to its full share: half of it at first.
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
    >>> optimizer = nn.optim.NAdam([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.8944
    """

    _bounds = bounds("lr", "eps", "weight_decay", "momentum_decay", betas=SHARE)
    _counter = "step"

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
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:  # noqa: ARG002
        return ("exp_avg", "exp_avg_sq", "mu_product")

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:
        if name == "mu_product":
            return self._unowned(np.ones((), np.float32))  # one number for the whole parameter
        return super()._new_state(group, x, name)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        is_decoupled = group["decoupled_weight_decay"]
        shrink, own_decay = (1 - lr * decay, 0) if is_decoupled else (1, decay)
        sign = -1 if group["maximize"] else 1
        share, next_share = (
            beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"])) for step in (steps + 1, steps + 2)
        )
        root = math.sqrt(1 - beta2 ** (steps + 1))
        averages = 1 - beta1, beta2, 1 - beta2
        return shrink, sign, own_decay, *averages, group["eps"] * root, lr * root, share, next_share

    def _update_plainly(self, numbers: tuple[float, ...], arrays: list[Array]) -> None:
        *others, size, share, next_share = numbers
        *rows, shares = arrays
        shares *= share
        product = float(shares)
        by_gradient = size * (1 - share) / (1 - product)
        by_average = size * next_share / (1 - product * next_share)
        super()._update_plainly((*others, by_gradient, by_average), rows)

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        shrink, sign, decay, first, stays, enters, eps, by_gradient, by_average = numbers
        m, v = state
        p *= shrink
        g = g * sign
        if decay:
            g = g + p * decay
        m += (g - m) * first
        v[...] = v * stays + g * g * enters
        p -= (g * by_gradient + m * by_average) / (np.sqrt(v) + eps)
