"""Adagrad, Adadelta and RMSprop."""

from __future__ import annotations

from dataclasses import InitVar, field

import numpy as np

from nn.module.options import options
from nn.optim.optimizer import Group
from nn.optim.options import Bound, bounds
from nn.optim.rule import Rule, with_sign_and_decay
from tensor import Tensor
from tensor.lowlevel import Array


@options
class Adagrad(Rule):
    """Adagrad: divides steps by the root of the sum of all squared gradients (Duchi et al., 2011).

    Parameters
    ----------
    lr_decay
        Divide the learning rate by 1 + `lr_decay` times the number of earlier steps.
    initial_accumulator_value
        The initial value of the sum.
    eps
        Added to the square root of the sum.
    """

    lr: InitVar[float] = 1e-2
    lr_decay: InitVar[float] = 0
    weight_decay: InitVar[float] = 0
    initial_accumulator_value: InitVar[float] = 0
    eps: InitVar[float] = 1e-10
    fused: InitVar[bool | None] = field(default=None, kw_only=True)

    _example = ("lr=0.1", 0.9)
    _bounds = bounds("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    _counter = "step"
    _state_names = ("sum",)

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:  # noqa: ARG002
        return self._filled_with(group["initial_accumulator_value"], x)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        return *self._sign_and_decay(group), group["eps"], group["lr"] / (1 + steps * group["lr_decay"])

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, eps, rate = numbers
        (squares,) = state
        g = with_sign_and_decay(sign, decay, p, g)
        squares += g * g
        p -= g / (np.sqrt(squares) + eps) * rate


@options
class Adadelta(Rule):
    """Adadelta: scales steps by running averages of squared gradients and squared steps (Zeiler, 2012).

    Parameters
    ----------
    lr
        The learning rate, a factor of each step.
    rho
        The decay rate of both averages.
    eps
        Added to both averages before the square roots.
    """

    lr: InitVar[float] = 1.0
    rho: InitVar[float] = 0.9
    eps: InitVar[float] = 1e-6
    weight_decay: InitVar[float] = 0

    _example = ("lr=100.0", 0.6838)
    _bounds = bounds("lr", "eps", "weight_decay", rho=Bound(0.0, 1.0, includes_high=True))
    _counter = "step"
    _state_names = ("square_avg", "acc_delta")

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        rho = group["rho"]
        return *self._sign_and_decay(group), rho, 1 - rho, group["eps"], group["lr"]

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, rho, new_weight, eps, lr = numbers
        squares, steps = state
        g = with_sign_and_decay(sign, decay, p, g)
        squares[...] = squares * rho + g * g * new_weight
        step = np.sqrt(steps + eps) / np.sqrt(squares + eps) * g
        steps[...] = steps * rho + step * step * new_weight
        p -= step * lr


@options
class RMSprop(Rule):
    """RMSprop: divides steps by the root of an average of squared gradients (Tieleman and Hinton, 2012).

    Parameters
    ----------
    alpha
        The decay rate of the average.
    eps
        Added to the square root of the average.
    momentum
        The weight of the last step in the next one.
    centered
        Divide by the root of an estimate of the variance (Graves, 2013).
    """

    lr: InitVar[float] = 1e-2
    alpha: InitVar[float] = 0.99
    eps: InitVar[float] = 1e-8
    weight_decay: InitVar[float] = 0
    momentum: InitVar[float] = 0
    centered: InitVar[bool] = False

    _example = ("lr=0.1", 0.0)
    _bounds = bounds("lr", "alpha", "eps", "weight_decay", "momentum")
    _counter = "step"
    _rule = "rmsprop"

    def _tensors(self, group: Group) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        mean = ("grad_avg",) if group["centered"] else ()
        return ("square_avg", *mean, *momentum)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        alpha, others = group["alpha"], (group[name] for name in ("eps", "lr", "momentum"))
        return *self._sign_and_decay(group), alpha, 1 - alpha, *others, float(group["centered"])

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, alpha, new_weight, eps, lr, momentum, is_centered = numbers
        square, *held = state
        g = with_sign_and_decay(sign, decay, p, g)
        square[...] = square * alpha + g * g * new_weight
        variance = square
        if is_centered:
            mean = held.pop(0)
            mean += (g - mean) * new_weight
            variance = square - mean * mean
        step = g / (np.sqrt(variance) + eps)
        if held:
            (buffer,) = held
            buffer[...] = step = buffer * momentum + step
        p -= step * lr
