"""Adam and AdamW."""

from __future__ import annotations

import math
from dataclasses import InitVar, field

import numpy as np

from nn.module.options import options
from nn.optim.optimizer import Group
from nn.optim.options import DECAY_RATE, bounds
from nn.optim.rule import Rule, with_sign_and_decay
from tensor.lowlevel import Array


@options
class AdamOptions(Rule):
    """Base class of optimizers with the options of Adam."""

    lr: InitVar[float] = 1e-3
    betas: InitVar[tuple[float, float]] = (0.9, 0.999)
    eps: InitVar[float] = 1e-8
    weight_decay: InitVar[float] = 0

    _bounds = bounds("lr", "eps", "weight_decay", betas=DECAY_RATE)
    _counter = "step"


class Averaging(AdamOptions):
    """Base class of Adam and its variants, which average the gradient and its square."""

    # Whether weight decay multiplies the parameter, as in AdamW. If not, it changes the gradient.
    _is_decoupled = False

    def _tensors(self, group: Group) -> tuple[str, ...]:
        averages = ("exp_avg", "exp_avg_sq")
        return (*averages, "max_exp_avg_sq") if group.get("amsgrad") else averages

    def _average_numbers(self, group: Group) -> tuple[float, ...]:
        """Return the `numbers` of ``_average``."""
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        has_option = "decoupled_weight_decay" in self.defaults
        is_decoupled = group["decoupled_weight_decay"] if has_option else self._is_decoupled
        shrink, coupled_decay = (1 - lr * decay, 0) if is_decoupled else (1, decay)
        return shrink, -1 if group["maximize"] else 1, coupled_decay, 1 - beta1, beta2, 1 - beta2

    def _average(self, numbers: list[float], p: Array, g: Array, m: Array, v: Array) -> Array:
        """Apply weight decay to `p` or to the gradient, update both averages, and return the gradient."""
        shrink, sign, decay, weight1, beta2, weight2 = numbers
        p *= shrink
        g = with_sign_and_decay(sign, decay, p, g)
        m += (g - m) * weight1
        v[...] = v * beta2 + g * g * weight2
        return g


@options
class Adam(Averaging):
    """Adam (Kingma and Ba, 2015): steps scaled by running averages of the gradient and of its square."""

    amsgrad: InitVar[bool] = False
    fused: InitVar[bool | None] = field(default=None, kw_only=True)

    _example = ("lr=0.1", 0.9)
    _rule = "adam"

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        # Apply the bias correction c of `v` to eps and lr, with root = sqrt(c):
        # sqrt(v / c) + eps = (sqrt(v) + eps * root) / root.
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


@options
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Parameters
    ----------
    weight_decay
        Each step subtracts ``lr * weight_decay`` times the parameter.
    """

    weight_decay: InitVar[float] = 1e-2

    _example = ("lr=0.1, weight_decay=0.1", 0.89)
    _is_decoupled = True
