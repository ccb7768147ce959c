"""ASGD."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nn.optim.decay import sign_and_decay, with_sign_and_decay
from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import bounds
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array


@set_module("nn.optim")
class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992).

    ``optimizer.state[parameter]["ax"]`` is the mean of the parameter's values from step ``t0 + 2`` on. Before
    that step it is the parameter itself.

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate of the first step.
    lambd
        The factor of the weight decay of each step, which is also in the formula of `alpha`.
    alpha
        Divide the learning rate by ``(1 + lambd * lr * steps) ** alpha``.
    t0
        The mean starts with the value after step ``t0 + 2``.
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
    >>> optimizer = nn.optim.ASGD([x], lr=0.1, t0=0)
    >>> for _ in range(3):
    ...     optimizer.zero_grad()
    ...     (x * 5).sum().backward()
    ...     optimizer.step()
    >>> round(x.item(), 3), round(optimizer.state[x]["ax"].item(), 3)
    (-0.5, -0.25)
    """

    _bounds = bounds("lr", "weight_decay")
    _counter = "step"
    _state_names = ("eta", "mu", "ax")

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:
        if name == "ax":
            return super()._new_state(group, x, name)
        # Numbers for the whole parameter: the step size, and the weight of the new value in the average.
        return self._unowned(np.full((), group["lr"] if name == "eta" else 1, np.float32))

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        lr, step = group["lr"], steps + 1
        next_size = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        return *sign_and_decay(group), group["lambd"], next_size, 1 / max(1, step - group["t0"])

    def _update_plainly(self, numbers: tuple[float, ...], arrays: list[Array]) -> None:
        sign, decay, lambd, next_size, next_share = numbers
        p, g, size, share, average = arrays
        eta = float(size)
        super()._update_plainly((sign, decay, 1 - lambd * eta, eta, float(share)), [p, g, average])
        # Use float32, as PyTorch does, even if the loaded state has float64.
        size[...], share[...] = np.float32(next_size), np.float32(next_share)

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, decay, shrink, size, share = numbers
        (average,) = state
        g = with_sign_and_decay(sign, decay, p, g)
        p *= shrink
        p -= g * size
        if share == 1:
            average[...] = p
        else:
            average += (p - average) * share
