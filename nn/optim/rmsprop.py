"""RMSprop."""

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


class RMSprop(Optimizer):
    """Steps scaled by a running average of the squared gradient (Tieleman and Hinton, 2012).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The step size.
    alpha
        How much of the average stays at each step.
    eps
        Added to the root of the average.
    weight_decay
        How much of the parameter is added to its gradient.
    momentum
        The share of the last step that goes into the next.
    centered
        Scale by an estimate of the variance (Graves, 2013).
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
    >>> optimizer = nn.optim.RMSprop([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.0
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
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

    def _check_options(self, group: Group) -> None:
        bounds = {
            "lr": Bound(),
            "alpha": Bound(),
            "eps": Bound(),
            "weight_decay": Bound(),
            "momentum": Bound(),
        }
        require_within("RMSprop", group, bounds)

    def _tensors(self, group: Group) -> tuple[str, ...]:
        momentum = ("momentum_buffer",) if group["momentum"] else ()
        mean = ("grad_avg",) if group["centered"] else ()
        return ("square_avg", *mean, *momentum)

    def _rule(self, group: Group, dtype: np.dtype[Any], age: int) -> Rule:  # noqa: ARG002
        decay, is_centered = group["weight_decay"], group["centered"]
        stays, enters = number(group["alpha"], dtype), number(1 - group["alpha"], dtype)
        eps, rate, share = (number(group[name], dtype) for name in ("eps", "lr", "momentum"))
        sign = -1 if group["maximize"] else 1
        multiply, add, subtract = np.multiply, np.add, np.subtract

        def update(p: Array, g: Array, t: Array, own: Array, square: Array, *held: Array) -> None:
            if sign != 1 or decay:
                g = multiply(g, sign, own)
            if decay:
                multiply(p, decay, t)
                add(g, t, g)
            multiply(g, g, t)
            multiply(t, enters, t)
            multiply(square, stays, square)
            add(square, t, square)
            if is_centered:
                mean, held = held[0], held[1:]
                subtract(g, mean, t)
                multiply(t, enters, t)
                add(mean, t, mean)
                multiply(mean, mean, t)
                subtract(square, t, t)
                np.sqrt(t, t)
            else:
                np.sqrt(square, t)
            add(t, eps, t)
            np.divide(g, t, t)
            if held:
                (step,) = held
                multiply(step, share, step)
                add(step, t, step)
                multiply(step, rate, t)
            else:
                multiply(t, rate, t)
            subtract(p, t, p)

        return update, sign != 1 or decay != 0
