"""Schedulers that multiply learning rates by a factor that depends on the epoch."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable

from nn.optim.lr_scheduler.scheduler import LRScheduler, require_epochs
from nn.optim.optimizer import Optimizer
from scopes._shared.naming import set_module
from tensor._errors import shown


@set_module("nn.optim.lr_scheduler")
class StepLR(LRScheduler):
    """Multiplies learning rates by `gamma` after every `step_size` epochs.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    step_size
        The number of epochs between two changes.
    gamma
        The factor of the learning rates.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        require_epochs(type(self).__name__, "step_size", step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        falls = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._scaled(self.gamma) if falls else self._current()

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [first * factor for first in self.base_lrs]


@set_module("nn.optim.lr_scheduler")
class MultiStepLR(LRScheduler):
    """Multiplies learning rates by `gamma` at each epoch in `milestones`, which may repeat an epoch.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    milestones
        The numbers of the epochs, in any order.
    gamma
        The factor of the learning rates.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones: Counter[int] = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        if self.last_epoch not in self.milestones:
            return self._current()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [first * self.gamma**passed for first in self.base_lrs]


@set_module("nn.optim.lr_scheduler")
class ExponentialLR(LRScheduler):
    """Multiplies learning rates by `gamma` after every epoch.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    gamma
        The factor of the learning rates.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        return self._current() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> list[float]:
        return [first * self.gamma**self.last_epoch for first in self.base_lrs]


@set_module("nn.optim.lr_scheduler")
class ConstantLR(LRScheduler):
    """Multiplies learning rates by `factor` for the first `total_iters` epochs.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    factor
        The factor of the learning rates, above 0 and at most 1.
    total_iters
        The number of epochs.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        _require_fraction("ConstantLR", "factor", factor, is_divisor=True)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch == self.total_iters:
            return self._scaled(1.0 / self.factor)
        return self._current()

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1.0
        return [first * factor for first in self.base_lrs]


@set_module("nn.optim.lr_scheduler")
class LinearLR(LRScheduler):
    """Multiplies learning rates by a factor that changes linearly for `total_iters` epochs.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    start_factor
        The factor of the initial learning rates at the start, above 0 and at most 1.
    end_factor
        The factor after `total_iters` epochs, from 0 to 1.
    total_iters
        The number of epochs of the change.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        _require_fraction("LinearLR", "start_factor", start_factor, is_divisor=True)
        _require_fraction("LinearLR", "end_factor", end_factor)
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        way = self.end_factor - self.start_factor
        return self._scaled(1.0 + way / (self.total_iters * self.start_factor + (self.last_epoch - 1) * way))

    def _get_closed_form_lr(self) -> list[float]:
        done = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * done
        return [first * factor for first in self.base_lrs]


@set_module("nn.optim.lr_scheduler")
class PolynomialLR(LRScheduler):
    """Decreases learning rates to 0 in `total_iters` epochs, by a polynomial of degree `power`.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    total_iters
        The number of epochs until the learning rates are 0.
    power
        The degree of the polynomial.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2, power=2.0)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.25, 0.0, 0.0]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        require_epochs(type(self).__name__, "total_iters", total_iters)
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left, left_before = (
            1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1)
        )
        return self._scaled((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [first * left**self.power for first in self.base_lrs]


def _require_fraction(name: str, option: str, value: float, *, is_divisor: bool = False) -> None:
    if not 0 <= value <= 1 or (is_divisor and value == 0):
        least = "above 0" if is_divisor else "at least 0"
        raise ValueError(f"{name}: {option} must be {least} and at most 1, not {shown(value)}")
