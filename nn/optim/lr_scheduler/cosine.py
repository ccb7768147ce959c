"""Cosine annealing of learning rates."""

from __future__ import annotations

import math

from nn.optim.lr_scheduler.scheduler import LRScheduler, require_epochs
from nn.optim.optimizer import Optimizer
from scopes._shared.naming import set_module
from tensor._errors import shown


@set_module("nn.optim.lr_scheduler")
class CosineAnnealingLR(LRScheduler):
    """Decreases learning rates to `eta_min` along half a cosine (Loshchilov and Hutter, 2017).

    They reach `eta_min` after `T_max` epochs, and then increase again.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    T_max
        The number of epochs of half a cosine.
    eta_min
        The lowest learning rate.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.5, 0.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        require_epochs(type(self).__name__, "T_max", T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        if self._is_initial:
            return self._current()
        if (
            self._step_count == 1 and self.last_epoch > 0
        ):  # in a sequence, or after epochs of another scheduler
            return self._get_closed_form_lr()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The rate is `eta_min`. Add to it, because a factor does not change a difference of 0.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self._current(), self.base_lrs, strict=True)
            return [rate + (first - self.eta_min) * rise for rate, first in pairs]
        height, before = (
            1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1)
        )
        return [height / before * (rate - self.eta_min) + self.eta_min for rate in self._current()]

    def _get_closed_form_lr(self) -> list[float]:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (first - self.eta_min) * height / 2 for first in self.base_lrs]


@set_module("nn.optim.lr_scheduler")
class CosineAnnealingWarmRestarts(LRScheduler):
    """Decreases learning rates along half a cosine, with restarts (SGDR: Loshchilov and Hutter, 2017).

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    T_0
        The number of epochs before the first restart.
    T_mult
        The length of each period divided by that of the previous period.
    eta_min
        The learning rate at the end of each period.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,  # noqa: N803
        T_mult: int = 1,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        require_epochs(type(self).__name__, "T_0", T_0)
        if T_mult < 1 or T_mult % 1:
            raise ValueError(
                f"CosineAnnealingWarmRestarts: T_mult must be an integer of at least 1, not {shown(T_mult)}"
            )
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_i: int = T_0
        self.T_cur: float = last_epoch
        if last_epoch > 0:
            self._seek(last_epoch)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups at the current position in the period."""
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (first - self.eta_min) * height / 2 for first in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to `epoch`, which may be a fraction: ``step(epoch + i / count)``."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
            self.last_epoch += 1
        else:
            if epoch < 0:
                raise ValueError(f"CosineAnnealingWarmRestarts: epoch must be at least 0, not {shown(epoch)}")
            self._seek(epoch)
            self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def _seek(self, epoch: float) -> None:
        """Set the period of `epoch`, and the position in it."""
        if self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
            return
        number = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_i = self.T_0 * self.T_mult**number
        self.T_cur = epoch - self.T_0 * (self.T_mult**number - 1) / (self.T_mult - 1)
