"""Adam and AdamW."""

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


class Averaging(Optimizer):
    """Base class of Adam and its variants, which average the gradient and its square."""

    # Whether weight decay multiplies the parameter, as in AdamW, instead of changing the gradient.
    _is_decoupled = False
    _bounds = bounds("lr", "eps", "weight_decay", betas=SHARE)
    _counter = "step"

    def _tensors(self, group: Group) -> tuple[str, ...]:
        averages = ("exp_avg", "exp_avg_sq")
        return (*averages, "max_exp_avg_sq") if group.get("amsgrad") else averages

    def _average_numbers(self, group: Group) -> tuple[float, ...]:
        """Return the arguments of ``_average``."""
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        has_choice = "decoupled_weight_decay" in self.defaults
        is_decoupled = group["decoupled_weight_decay"] if has_choice else self._is_decoupled
        shrink, own_decay = (1 - lr * decay, 0) if is_decoupled else (1, decay)
        return shrink, -1 if group["maximize"] else 1, own_decay, 1 - beta1, beta2, 1 - beta2

    def _average(self, numbers: list[float], p: Array, g: Array, m: Array, v: Array) -> Array:
        """Apply weight decay to `p` or to the gradient, update both averages, and return the gradient."""
        shrink, sign, decay, first, stays, enters = numbers
        p *= shrink
        g = g * sign
        if decay:
            g = g + p * decay
        m += (g - m) * first
        v[...] = v * stays + g * g * enters
        return g


class Adam(Averaging):
    """Adam (Kingma and Ba, 2015): steps scaled by running averages of the gradient and of its square.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.Adam([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.9
    """

    _rule = "adam"

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        del foreach, fused
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize
        )
        super().__init__(params, defaults)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        # With the bias corrections: sqrt(v / c) + eps = (sqrt(v) + eps * sqrt(c)) / sqrt(c).
        root = math.sqrt(1 - beta2 ** (steps + 1))
        size = group["lr"] * root / (1 - beta1 ** (steps + 1))
        return *self._average_numbers(group), group["eps"] * root, size

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        *averages, eps, size = numbers
        m, v, *largest = state
        self._average(averages, p, g, m, v)
        if largest:
            v = np.maximum(largest[0], v, out=largest[0])
        p -= m / (np.sqrt(v) + eps) * size


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Parameters
    ----------
    weight_decay
        Each step subtracts ``lr * weight_decay`` times the parameter.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.AdamW([x], lr=0.1, weight_decay=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.89
    """

    _is_decoupled = True

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        del foreach, fused
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
