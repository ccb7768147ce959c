"""Schedulers with a user-defined function of the epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nn.optim.lr_scheduler.scheduler import (
    LRScheduler,
    one_for_each_group,
    require_optimizer,
    state_of_function,
)
from nn.optim.optimizer import Optimizer
from scopes._shared.naming import set_module


class _ByFunction(LRScheduler):
    lr_lambdas: list[Callable[[int], float]]

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        name = type(self).__name__
        require_optimizer(name, optimizer)
        self.lr_lambdas = one_for_each_group(name, "lr_lambda", optimizer, lr_lambda)
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"{name}: lr_lambda must be a function of the epoch, not {type(function).__name__}"
                )
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the scheduler, with the attributes of callable objects."""
        return {**super().state_dict(), "lr_lambdas": [state_of_function(f) for f in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``state_dict()``. Restore the attributes of callable objects."""
        state = dict(state_dict)
        for function, held in zip(self.lr_lambdas, state.pop("lr_lambdas"), strict=True):
            if held is not None:
                vars(function).update(held)
        super().load_state_dict(state)


@set_module("nn.optim.lr_scheduler")
class LambdaLR(_ByFunction):
    """Multiplies the initial learning rates by ``lr_lambda(epoch)``.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    lr_lambda
        A function of the number of the epoch that returns the factor, or a list with one for each group.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.5, 0.333, 0.25]
    """

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [first * function(self.last_epoch) for function, first in pairs]


@set_module("nn.optim.lr_scheduler")
class MultiplicativeLR(_ByFunction):
    """Multiplies the learning rates of the previous epoch by ``lr_lambda(epoch)``.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    lr_lambda
        A function of the number of the epoch that returns the factor, or a list with one for each group.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.5, 0.167, 0.042]
    """

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        if self._is_initial:
            return self._current()
        pairs = zip(self.lr_lambdas, self._current(), strict=True)
        return [rate * function(self.last_epoch) for function, rate in pairs]
