"""Lion and Rprop, whose steps depend only on signs of the momentum or of gradients."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import DECAY_RATE, bounds, require_two
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import shown


@set_module("nn.optim")
class Lion(Optimizer):
    """Lion: steps of equal size along the sign of the momentum (Chen et al., 2023).

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate, usually 3 to 10 times smaller than for ``AdamW``.
    betas
        The weight of the momentum in the step, and the decay rate of the momentum.
    weight_decay
        Each step subtracts ``lr * weight_decay`` times the parameter.
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
    >>> optimizer = nn.optim.Lion([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x.item(), 4)
    0.9
    """

    _bounds = bounds("lr", "weight_decay", betas=DECAY_RATE)
    _state_names = ("exp_avg",)

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        sign, (beta1, beta2), lr = -1 if group["maximize"] else 1, group["betas"], group["lr"]
        return 1 - lr * group["weight_decay"], sign, beta1, 1 - beta1, beta2, 1 - beta2, lr

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        shrink, sign, beta1, weight1, beta2, weight2, lr = numbers
        (m,) = state
        p *= shrink
        g = g * sign
        p -= np.sign(m * beta1 + g * weight1) * lr
        m[...] = m * beta2 + g * weight2


@set_module("nn.optim")
class Rprop(Optimizer):
    """Rprop: steps along the gradient's sign, with a step size for each element (Riedmiller and Braun, 1993).

    A step size grows while the sign of its gradient stays the same. When the sign changes, it
    shrinks, and the element skips one step. Use gradients over all data, not over batches.

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``.
    lr
        The initial step size of all elements.
    etas
        The factors of a step size when the sign changes (below 1), and when it stays the same (above 1).
    step_sizes
        The smallest and the largest step size.
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
    >>> optimizer = nn.optim.Rprop([x], lr=0.1)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x * 5).sum().backward()
    ...     optimizer.step()
    >>> round(x.item(), 4)
    0.78
    """

    _bounds = bounds("lr")
    _counter = "step"
    _state_names = ("prev", "step_size")

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        for option in ("etas", "step_sizes"):
            require_two("Rprop", option, group[option])
        less, more = group["etas"]
        if not 0 < less < 1 < more:
            raise ValueError(
                "Rprop: etas must be a number between 0 and 1 and a number above 1, such as (0.5, 1.2), not "
                f"{shown(group['etas'])}"
            )

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:
        if name == "prev":
            return super()._new_state(group, x, name)
        return self._filled_like(x, group["lr"])

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        return -1 if group["maximize"] else 1, *group["etas"], *group["step_sizes"]

    def _formula(self, numbers: tuple[float, ...], p: Array, g: Array, state: list[Array]) -> None:
        sign, less, more, smallest, largest = numbers
        before, sizes = state
        g = g * sign
        agreement = g * before
        has_turned = agreement < 0
        grown = np.where(agreement > 0, sizes * more, sizes)
        np.clip(np.where(has_turned, sizes * less, grown), smallest, largest, out=sizes)
        before[...] = np.where(has_turned, 0, g)
        # Do not use np.sign: PyTorch takes no step if the gradient is nan.
        p -= np.where(before > 0, sizes, np.where(before < 0, -sizes, 0))
