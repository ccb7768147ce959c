"""Adam and AdamW."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from nn.optim.decay import with_sign_and_decay
from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import DECAY_RATE, bounds
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array

# The bounds of the options of Adam and of its variants.
ADAM_BOUNDS = bounds("lr", "eps", "weight_decay", betas=DECAY_RATE)


def average_numbers(group: Group, is_decoupled: bool) -> tuple[float, ...]:
    """Return the `numbers` of `update_averages`. Decoupled weight decay does not change the gradient."""
    lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
    shrink, coupled_decay = (1 - lr * decay, 0) if is_decoupled else (1, decay)
    return shrink, -1 if group["maximize"] else 1, coupled_decay, 1 - beta1, beta2, 1 - beta2


def update_averages(numbers: list[float], p: Array, g: Array, m: Array, v: Array) -> Array:
    """Apply weight decay to `p` or to the gradient, update both averages, and return the gradient."""
    shrink, sign, decay, weight1, beta2, weight2 = numbers
    p *= shrink
    g = with_sign_and_decay(sign, decay, p, g)
    m += (g - m) * weight1
    v[...] = v * beta2 + g * g * weight2
    return g


@set_module("nn.optim")
class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): steps scaled by running averages of the gradient and of its square.

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
    amsgrad
        Divide by the largest average of squared gradients so far (Reddi et al., 2018).
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
    >>> optimizer = nn.optim.Adam([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.9
    """

    _bounds = ADAM_BOUNDS
    _counter = "step"
    _rule = "adam"
    # Whether weight decay is decoupled, as in AdamW.
    _is_decoupled = False

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
        foreach: bool | None = None,  # noqa: ARG002
        fused: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:
        averages = ("exp_avg", "exp_avg_sq")
        return (*averages, "max_exp_avg_sq") if group["amsgrad"] else averages

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        beta1, beta2 = group["betas"]
        # Apply the bias correction c of `v` to eps and lr, with root = sqrt(c):
        # sqrt(v / c) + eps = (sqrt(v) + eps * root) / root.
        root = math.sqrt(1 - beta2 ** (steps + 1))
        size = group["lr"] * root / (1 - beta1 ** (steps + 1))
        return *average_numbers(group, self._is_decoupled), group["eps"] * root, size

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        *averages, eps, size = numbers
        m, v, *largest = state
        update_averages(averages, p, g, m, v)
        if largest:
            v = np.maximum(largest[0], v, out=largest[0])
        p -= m / (np.sqrt(v) + eps) * size


@set_module("nn.optim")
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

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
        Each step subtracts ``lr * weight_decay`` times the parameter.
    amsgrad
        Divide by the largest average of squared gradients so far (Reddi et al., 2018).
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
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, foreach=foreach, fused=fused
        )
