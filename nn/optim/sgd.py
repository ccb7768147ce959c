"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import bounds
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array


@set_module("nn.optim")
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as in PyTorch (Sutskever et al., 2013).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate.
    momentum
        The weight of the last step in the next one.
    dampening
        The momentum adds 1 - `dampening` times the gradient, except in the first step.
    weight_decay
        Add this factor times the parameter to its gradient.
    nesterov
        Use Nesterov momentum. It needs `momentum` above 0 and `dampening` 0.
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
    >>> optimizer = nn.optim.SGD([x], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x * 5).sum().backward()
    ...     optimizer.step()
    >>> round(x.item(), 4)
    -0.45
    """

    _bounds = bounds("lr", "momentum", "weight_decay")
    _rule = "sgd"

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
        fused: bool | None = None,  # noqa: ARG002
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
        super()._check_options(group)
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("SGD: nesterov=True requires a momentum above 0 and a dampening of 0")

    def _tensors(self, group: Group) -> tuple[str, ...]:
        return ("momentum_buffer",) if group["momentum"] else ()

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        new_weight = 1 if steps == 0 else 1 - group["dampening"]  # PyTorch does not dampen the first gradient
        return (
            group["lr"],
            group["weight_decay"],
            group["momentum"],
            new_weight,
            float(group["nesterov"]),
            -1.0 if group["maximize"] else 1.0,
        )

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        rate, decay, momentum, new_weight, is_nesterov, sign = numbers
        if sign < 0:
            g = -g
        if decay:
            g = p * decay + g
        if state:
            (m,) = state
            m[...] = m * momentum + g * new_weight
            g = g + m * momentum if is_nesterov else m
        p -= g * rate
