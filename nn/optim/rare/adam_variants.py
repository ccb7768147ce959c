"""Adamax, NAdam and RAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from nn.optim.adam import ADAM_BOUNDS, average_numbers, update_averages
from nn.optim.decay import sign_and_decay, with_sign_and_decay
from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import DECAY_RATE, bounds
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array


@set_module("nn.optim")
class Adamax(Optimizer):
    """Adamax: Adam with the infinity norm of gradients instead of the second moment (Kingma and Ba, 2015).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate.
    betas
        The decay rates of the average of the gradient, and of its infinity norm.
    eps
        Added to the absolute value of each gradient.
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
    >>> optimizer = nn.optim.Adamax([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.9
    """

    _bounds = ADAM_BOUNDS
    _counter = "step"
    _state_names = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        size = group["lr"] / (1 - beta1 ** (steps + 1))
        return *sign_and_decay(group), 1 - beta1, beta2, group["eps"], size

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, weight1, beta2, eps, size = numbers
        m, largest = state
        g = with_sign_and_decay(sign, decay, p, g)
        m += (g - m) * weight1
        np.maximum(largest * beta2, np.abs(g) + eps, out=largest)
        p -= m / largest * size


@set_module("nn.optim")
class NAdam(Optimizer):
    """NAdam: Adam with Nesterov momentum (Dozat, 2016).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate.
    betas
        The decay rates of the averages of the gradient and of its square.
    eps
        Added to the square root of the average of squared gradients.
    weight_decay
        Add this factor times the parameter to its gradient.
    momentum_decay
        The rate at which the momentum grows from half of ``betas[0]`` to ``betas[0]``.
    decoupled_weight_decay
        Subtract `lr` times `weight_decay` times the parameter from it, instead of changing the gradient.
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
    >>> optimizer = nn.optim.NAdam([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.8944
    """

    _bounds = bounds("lr", "eps", "weight_decay", "momentum_decay", betas=DECAY_RATE)
    _counter = "step"
    _state_names = ("exp_avg", "exp_avg_sq", "mu_product")

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
        foreach: bool | None = None,  # noqa: ARG002
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

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:
        if name == "mu_product":
            return self._unowned(np.ones((), np.float32))  # one number for the whole parameter
        return super()._new_state(group, x, name)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        share, next_share = (
            beta1 * (1 - 0.5 * 0.96 ** (step * group["momentum_decay"])) for step in (steps + 1, steps + 2)
        )
        root = math.sqrt(1 - beta2 ** (steps + 1))
        averages = average_numbers(group, group["decoupled_weight_decay"])
        return *averages, group["eps"] * root, group["lr"] * root, share, next_share

    def _update_plainly(self, numbers: tuple[float, ...], arrays: list[Array]) -> None:
        *others, size, share, next_share = numbers
        *rows, shares = arrays
        shares *= share
        product = float(shares)
        by_gradient = size * (1 - share) / (1 - product)
        by_average = size * next_share / (1 - product * next_share)
        super()._update_plainly((*others, by_gradient, by_average), rows)

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        *averages, eps, by_gradient, by_average = numbers
        m, v = state
        g = update_averages(averages, p, g, m, v)
        p -= (g * by_gradient + m * by_average) / (np.sqrt(v) + eps)


@set_module("nn.optim")
class RAdam(Optimizer):
    """RAdam: Adam whose early steps correct the variance of the second moment (Liu et al., 2020).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate.
    betas
        The decay rates of the averages of the gradient and of its square.
    eps
        Added to the square root of the average of squared gradients.
    weight_decay
        Add this factor times the parameter to its gradient.
    decoupled_weight_decay
        Subtract `lr` times `weight_decay` times the parameter from it, instead of changing the gradient.
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
    >>> optimizer = nn.optim.RAdam([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.5
    """

    _bounds = ADAM_BOUNDS
    _counter = "step"
    _state_names = ("exp_avg", "exp_avg_sq")

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
        foreach: bool | None = None,  # noqa: ARG002
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

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        size = group["lr"] / (1 - beta1 ** (steps + 1))
        rectified = _rectification(beta2, steps + 1)
        return *average_numbers(group, group["decoupled_weight_decay"]), group["eps"], size, rectified

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        *averages, eps, size, rectified = numbers
        m, v = state
        update_averages(averages, p, g, m, v)
        if rectified:
            p -= m / (np.sqrt(v) + eps) * (size * rectified)
        else:
            p -= m * size


def _rectification(beta2: float, step: int) -> float:
    """Return RAdam's factor of a step, which includes the bias correction of the second moment.

    It is 0 in the first steps, which do not use the second moment, because it has too few gradients.
    """
    correction = 1 - beta2**step
    # The paper's names for the length of the moving average: after infinitely many steps, and after `step`.
    rho_inf = 2 / (1 - beta2) - 1
    rho = rho_inf - 2 * step * beta2**step / correction
    if rho <= 5:
        return 0.0
    variance = (rho - 4) * (rho - 2) * rho_inf / ((rho_inf - 4) * (rho_inf - 2) * rho)
    return math.sqrt(variance * correction)
