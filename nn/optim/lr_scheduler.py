"""Step sizes that change as training goes on: PyTorch's ``torch.optim.lr_scheduler``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tensor.lowlevel import shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "ExponentialLR", "LRScheduler", "LambdaLR", "StepLR"]


class LRScheduler:
    """Base of all schedulers. Derive, and define ``_rate``.

    The step sizes of an epoch follow from its number and from what they were at first, so that rounding does
    not add up.

    Parameters
    ----------
    optimizer
        Whose step sizes are set.
    last_epoch
        The number of epochs that are done, less 1.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def _rate(self, first: float, epoch: int) -> float:
        """Return the step size of `epoch`, when it was `first` at first."""
        raise NotImplementedError

    def step(self) -> None:
        """Go on to the next epoch."""
        self.last_epoch += 1
        self._set()

    def _set(self) -> None:
        for group, first in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = self._rate(first, self.last_epoch)

    def get_last_lr(self) -> list[float]:
        """Return the step size of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Return what the scheduler knows, but for the optimizer and for functions."""
        return {key: value for key, value in vars(self).items() if key != "optimizer" and not callable(value)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict()`` returned, and set the step sizes."""
        vars(self).update(state_dict)
        self._set()


class StepLR(LRScheduler):
    """Multiplies step sizes by `gamma` after every `step_size` epochs.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [1.0, 1.0, 0.5, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: step_size is a number of epochs, at least 1, not {shown(step_size)}")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, first: float, epoch: int) -> float:
        return first * float(self.gamma ** (epoch // self.step_size))


class ExponentialLR(LRScheduler):
    """Multiplies step sizes by `gamma` after every epoch.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, first: float, epoch: int) -> float:
        return first * float(self.gamma**epoch)


class CosineAnnealingLR(LRScheduler):
    """Takes step sizes down to `eta_min` along half a cosine of `T_max` epochs (Loshchilov and Hutter, 2017).

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> schedule.step()
    >>> round(schedule.get_last_lr()[0], 3)
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_max: int,  # noqa: N803
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_max < 1:
            raise ValueError(
                f"CosineAnnealingLR: T_max is a number of epochs, at least 1, not {shown(T_max)}"
            )
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _rate(self, first: float, epoch: int) -> float:
        return self.eta_min + (first - self.eta_min) * (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class LambdaLR(LRScheduler):
    """Multiplies step sizes by what `lr_lambda` returns for the epoch.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> None:
        self.lr_lambda = lr_lambda
        super().__init__(optimizer, last_epoch)

    def _rate(self, first: float, epoch: int) -> float:
        return first * self.lr_lambda(epoch)
