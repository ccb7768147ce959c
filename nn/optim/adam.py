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


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): steps scaled by running averages of the gradient and of its square.

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The step size.
    betas
        The decay of both averages: their share that each step keeps.
    eps
        Added to the root of the second average.
    weight_decay
        The factor of the parameter that is added to its gradient.
    amsgrad
        Divide by the largest second average so far (Reddi et al., 2018).
    maximize
        Maximize the objective instead of minimizing it.
    foreach, fused
        Accepted for PyTorch's programs, without effect: a step is one pass over each parameter.

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

    # Whether the decay shrinks the parameter beside the step, not through the gradient (AdamW).
    _is_decoupled = False
    _bounds = bounds("lr", "eps", "weight_decay", betas=SHARE)
    _counter = "step"
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
        lr, (beta1, beta2), decay = group["lr"], group["betas"], group["weight_decay"]
        shrink = 1 - lr * decay if self._is_decoupled else 1
        sign = -1 if group["maximize"] else 1
        # With the bias corrections: sqrt(v / c) + eps = (sqrt(v) + eps * sqrt(c)) / sqrt(c).
        root = math.sqrt(1 - beta2 ** (steps + 1))
        size = lr * root / (1 - beta1 ** (steps + 1))
        own_decay = 0 if self._is_decoupled else decay
        return shrink, sign, own_decay, 1 - beta1, beta2, 1 - beta2, group["eps"] * root, size

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        shrink, sign, decay, first, stays, enters, eps, size = numbers
        m, v, *largest = state
        p *= shrink
        g = g * sign
        if decay:
            g = g + p * decay
        m += (g - m) * first
        v[...] = v * stays + g * g * enters
        if largest:
            v = np.maximum(largest[0], v, out=largest[0])
        p -= m / (np.sqrt(v) + eps) * size


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself (Loshchilov and Hutter, 2019).

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
        The factor of the parameter that each step subtracts, times `lr`.
    amsgrad
        Divide by the largest second average so far (Reddi et al., 2018).
    maximize
        Maximize the objective instead of minimizing it.
    foreach, fused
        Accepted for PyTorch's programs, without effect: a step is one pass over each parameter.

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
        del foreach, fused
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
