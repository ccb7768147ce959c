"""RMSprop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nn.optim._optimizer import Group, Optimizer
from nn.optim._options import Bound, require_within

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor


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
        names = ["square_avg"]
        if group["momentum"]:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def _update(self, x: Tensor, grad: Tensor, state: dict[str, Any], group: Group, **_: bool) -> None:
        names = self._tensors(group)
        alpha, decay, lr = group["alpha"], group["weight_decay"], group["lr"]
        sign = -1 if group["maximize"] else 1
        two = sign != 1 or decay != 0
        pieces = self._scratch.pieces(x, grad, *[state[name] for name in names], two=two)
        for p, g, *held, t, own in pieces:
            averages = dict(zip(names, held, strict=True))
            if sign != 1 or decay:
                g = np.multiply(g, sign, out=own)
            if decay:
                np.multiply(p, decay, out=t)
                g += t
            square = averages["square_avg"]
            np.multiply(g, g, out=t)
            t *= 1 - alpha
            square *= alpha
            square += t
            if group["centered"]:
                mean = averages["grad_avg"]
                np.subtract(g, mean, out=t)
                t *= 1 - alpha
                mean += t
                np.multiply(mean, mean, out=t)
                np.subtract(square, t, out=t)
                np.sqrt(t, out=t)
            else:
                np.sqrt(square, out=t)
            t += group["eps"]
            np.divide(g, t, out=t)
            if group["momentum"]:
                step = averages["momentum_buffer"]
                step *= group["momentum"]
                step += t
                np.multiply(step, lr, out=t)
            else:
                t *= lr
            p -= t
