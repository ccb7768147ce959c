"""Stochastic gradient descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import Bound, require_within
from nn.optim.scratch import number

if TYPE_CHECKING:
    from collections.abc import Iterable

    from nn.optim.scratch import Rule
    from tensor import Tensor
    from tensor.lowlevel import Array


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as in PyTorch (Sutskever et al., 2013).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The step size.
    momentum
        The share of the last step that goes into the next.
    dampening
        The share of the gradient that does not go into the momentum.
    weight_decay
        How much of the parameter is added to its gradient.
    nesterov
        Look ahead along the momentum; needs `momentum` and no `dampening`.
    maximize
        Go up instead of down.

    Raises
    ------
    ValueError
        If an option is out of its range.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> optimizer = nn.optim.SGD([x], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x * 1).sum().backward()
    ...     optimizer.step()
    >>> round(x.item(), 4)
    0.71
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check_options(self, group: Group) -> None:
        bounds = {"lr": Bound(), "momentum": Bound(), "weight_decay": Bound()}
        require_within("SGD", group, bounds)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov needs a momentum above 0 and a dampening of 0")

    def _tensors(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _rule(self, group: Group, dtype: np.dtype[Any], age: int) -> Rule:
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        if group["maximize"]:
            lr = -lr
            decay = -decay
        rate, share = number(lr, dtype), number(momentum, dtype)
        keeps = 1 if age == 0 else 1 - group["dampening"]  # the first gradient goes in whole
        looks_ahead = group["nesterov"]
        multiply, add, subtract = np.multiply, np.add, np.subtract

        def update(p: Array, g: Array, t: Array, more: Array, *held: Array) -> None:
            if decay:
                multiply(p, decay, t)
                g = add(t, g, t)
            if held:
                (m,) = held
                multiply(m, share, m)
                add(m, g if keeps == 1 else multiply(g, keeps, more), m)
                g = add(g, multiply(m, share, more), t) if looks_ahead else m
            multiply(g, rate, t)
            subtract(p, t, p)

        return update, looks_ahead or keeps != 1
