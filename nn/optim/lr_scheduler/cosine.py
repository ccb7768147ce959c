"""Cosine annealing of learning rates."""

from __future__ import annotations

import math
from typing import Any

from nn.module.options import options
from nn.optim.lr_scheduler.scheduler import Schedule
from tensor.lowlevel import shown


@options
class CosineAnnealingLR(Schedule):
    """Decreases learning rates to `eta_min` along half a cosine (Loshchilov and Hutter, 2017).

    They reach `eta_min` after `T_max` epochs, and then increase again.
    """

    T_max: int
    eta_min: float = 0.0
    last_epoch: int = -1

    _example = ("T_max=2", [1.0, 0.5, 0.0, 0.5])
    _epochs = ("T_max",)

    def get_lr(self) -> list[float]:
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


@options
class CosineAnnealingWarmRestarts(Schedule):
    """Decreases learning rates along half a cosine, with restarts (SGDR: Loshchilov and Hutter, 2017).

    Parameters
    ----------
    T_0
        The number of epochs before the first restart.
    T_mult
        The length of each period divided by that of the previous period.
    eta_min
        The learning rate at the end of each period.
    """

    T_0: int
    T_mult: int = 1
    eta_min: float = 0.0
    last_epoch: int = -1

    _example = ("T_0=2", [1.0, 0.5, 1.0, 0.5])
    _epochs = ("T_0",)

    def _set_options(self, given: dict[str, Any]) -> None:
        self.T_i: int = given["T_0"]
        self.T_cur: float = given["last_epoch"]
        super()._set_options(given)

    def _check(self) -> None:
        super()._check()
        if self.T_mult < 1 or self.T_mult % 1:
            raise ValueError(
                "CosineAnnealingWarmRestarts: T_mult must be an integer of at least 1, not "
                f"{shown(self.T_mult)}"
            )

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
