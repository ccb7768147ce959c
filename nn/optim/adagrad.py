"""Adagrad."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import bounds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor import Tensor
    from tensor.lowlevel import Array


class Adagrad(Optimizer):
    """Adagrad: scales steps by the sum of all squared gradients so far (Duchi et al., 2011).

    Parameters
    ----------
    lr_decay
        The learning rate is divided by 1 + `lr_decay` times the number of earlier steps.
    initial_accumulator_value
        The initial value of the sum.
    eps
        Added to the square root of the sum.

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
    ) -> None:
        defaults = dict(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
            maximize=maximize,
        )
        super().__init__(params, defaults)

    def _tensors(self, group: Group) -> tuple[str, ...]:  # noqa: ARG002
        return ("sum",)

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:  # noqa: ARG002
        first = group["initial_accumulator_value"]
        return self._filled_like(x, complex(first, first) if x.dtype.kind == "c" else first)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        sign = -1 if group["maximize"] else 1
        return sign, group["weight_decay"], group["eps"], group["lr"] / (1 + steps * group["lr_decay"])

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, eps, rate = numbers
        (squares,) = state
        g = g * sign
        if decay:
            g = g + p * decay
        squares += g * g
        p -= g / (np.sqrt(squares) + eps) * rate
