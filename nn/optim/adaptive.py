"""Adagrad, Adadelta and RMSprop."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nn.optim.decay import sign_and_decay, with_sign_and_decay
from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import Bound, bounds
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array


@set_module("nn.optim")
class Adagrad(Optimizer):
    """Adagrad: divides steps by the root of the sum of all squared gradients (Duchi et al., 2011).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate.
    lr_decay
        Divide the learning rate by 1 + `lr_decay` times the number of earlier steps.
    weight_decay
        Add this factor times the parameter to its gradient.
    initial_accumulator_value
        The initial value of the sum.
    eps
        Added to the square root of the sum.
    maximize
        Maximize the objective instead of minimizing it.
    foreach, fused
        Accepted for compatibility with PyTorch. No effect: a step is one pass over each parameter.

    Raises
    ------
    ValueError
        If an option is out of its range.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.Adagrad([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.9
    """

    _bounds = bounds("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    _counter = "step"
    _state_names = ("sum",)

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
        fused: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "eps": eps,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:  # noqa: ARG002
        return self._filled_like(x, group["initial_accumulator_value"])

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        return *sign_and_decay(group), group["eps"], group["lr"] / (1 + steps * group["lr_decay"])

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, eps, rate = numbers
        (squares,) = state
        g = with_sign_and_decay(sign, decay, p, g)
        squares += g * g
        p -= g / (np.sqrt(squares) + eps) * rate


@set_module("nn.optim")
class Adadelta(Optimizer):
    """Adadelta: scales steps by running averages of squared gradients and squared steps (Zeiler, 2012).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate, a factor of each step.
    rho
        The decay rate of both averages.
    eps
        Added to both averages before the square roots.
    weight_decay
        Add this factor times the parameter to its gradient.
    maximize
        Maximize the objective instead of minimizing it.
    foreach
        Accepted for compatibility with PyTorch. No effect: a step is one pass over each parameter.

    Raises
    ------
    ValueError
        If an option is out of its range.

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
    _state_names = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        rho = group["rho"]
        return *sign_and_decay(group), rho, 1 - rho, group["eps"], group["lr"]

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, rho, new_weight, eps, lr = numbers
        squares, steps = state
        g = with_sign_and_decay(sign, decay, p, g)
        squares[...] = squares * rho + g * g * new_weight
        step = np.sqrt(steps + eps) / np.sqrt(squares + eps) * g
        steps[...] = steps * rho + step * step * new_weight
        p -= step * lr


@set_module("nn.optim")
class RMSprop(Optimizer):
    """RMSprop: divides steps by the root of an average of squared gradients (Tieleman and Hinton, 2012).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate.
    alpha
        The decay rate of the average.
    eps
        Added to the square root of the average.
    weight_decay
        Add this factor times the parameter to its gradient.
    momentum
        The weight of the last step in the next one.
    centered
        Divide by the root of an estimate of the variance (Graves, 2013).
    maximize
        Maximize the objective instead of minimizing it.
    foreach
        Accepted for compatibility with PyTorch. No effect: a step is one pass over each parameter.

    Raises
    ------
    ValueError
        If an option is out of its range.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.RMSprop([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.0
    """

    _bounds = bounds("lr", "alpha", "eps", "weight_decay", "momentum")
    _counter = "step"
    _rule = "rmsprop"

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        mean = ("grad_avg",) if group["centered"] else ()
        return ("square_avg", *mean, *momentum)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        alpha, others = group["alpha"], (group[name] for name in ("eps", "lr", "momentum"))
        return *sign_and_decay(group), alpha, 1 - alpha, *others, float(group["centered"])

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
