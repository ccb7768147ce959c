"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import InitVar, field

from nn.module.options import options
from nn.optim.optimizer import Group
from nn.optim.options import TWO_STEPS, bounds
from nn.optim.rule import Rule
from tensor.lowlevel import Array


@options
class SGD(Rule):
    """Stochastic gradient descent, with momentum as in PyTorch (Sutskever et al., 2013).

    Parameters
    ----------
    momentum
        The weight of the last step in the next one.
    dampening
        The momentum adds 1 - `dampening` times the gradient, except in the first step.
    nesterov
        Use Nesterov momentum. It needs `momentum` above 0 and `dampening` 0.
    """

    lr: InitVar[float] = 1e-3
    momentum: InitVar[float] = 0
    dampening: InitVar[float] = 0
    weight_decay: InitVar[float] = 0
    nesterov: InitVar[bool] = False
    fused: InitVar[bool | None] = field(default=None, kw_only=True)

    _example = ("lr=0.1, momentum=0.9", -0.45)
    _step = TWO_STEPS
    _bounds = bounds("lr", "momentum", "weight_decay")
    _rule = "sgd"

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov=True requires a momentum above 0 and a dampening of 0")

    def _tensors(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        sign = -1 if group["maximize"] else 1
        new_weight = 1 if steps == 0 else 1 - group["dampening"]  # PyTorch does not dampen the first gradient
        decay = sign * group["weight_decay"]
        return sign * group["lr"], decay, group["momentum"], new_weight, float(group["nesterov"])

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        rate, decay, momentum, new_weight, is_nesterov = numbers
        if decay:
            g = p * decay + g
        if state:
            (m,) = state
            m[...] = m * momentum + g * new_weight
            g = g + m * momentum if is_nesterov else m
        p -= g * rate
