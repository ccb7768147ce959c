"""Schedulers composed of others: in sequence, or chained."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from nn.optim.lr_scheduler.plateau import ReduceLROnPlateau
from nn.optim.lr_scheduler.scheduler import LRScheduler
from nn.optim.optimizer import Optimizer
from scopes._shared.naming import set_module


class _Combined(LRScheduler):
    _schedulers: Sequence[LRScheduler]

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, and set the learning rates.

        Raises
        ------
        TypeError
            If `epoch` is passed: each scheduler counts its own epochs.
        """
        if epoch is not None:
            raise TypeError(
                f"{type(self).__name__}.step() always advances by one epoch: omit the argument epoch"
            )
        self._advance()

    def _advance(self) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the scheduler and its parts, without the optimizer and functions."""
        return {**super().state_dict(), "_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``state_dict()``. Also load the optimizer's state: it holds the rates."""
        state = dict(state_dict)
        parts = list(zip(self._schedulers, state.pop("_schedulers"), strict=True))
        super().load_state_dict(state)
        for part, held in parts:
            part.load_state_dict(held)


def _require_parts(name: str, parts: Sequence[LRScheduler], optimizer: Optimizer | None) -> Optimizer:
    """Check the schedulers `parts`, and return their optimizer."""
    if not parts:
        raise ValueError(f"{name} requires at least one scheduler, not an empty list")
    for i, part in enumerate(parts):
        if not isinstance(part, LRScheduler):
            raise TypeError(f"{name}: scheduler {i} must be an LRScheduler, not {type(part).__name__}")
        if isinstance(part, ReduceLROnPlateau):
            raise ValueError(
                f"{name}: scheduler {i} must not be a ReduceLROnPlateau, because its step requires a metric: "
                "call its step(loss) separately"
            )
        optimizer = optimizer or part.optimizer
        if part.optimizer is not optimizer:
            raise ValueError(
                f"{name}: all schedulers must have the same optimizer, but scheduler {i} has another one"
            )
    return parts[0].optimizer


@set_module("nn.optim.lr_scheduler")
class SequentialLR(_Combined):
    """Runs several schedulers in sequence.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    schedulers
        At least one scheduler, all of `optimizer`.
    milestones
        The epochs at which the second and later schedulers start. Each scheduler counts its epochs from 0.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Raises
    ------
    ValueError
        If `milestones` is not shorter than `schedulers` by one, or a scheduler has another optimizer.

    Examples
    --------
    >>> import nn
    >>> schedules = nn.optim.lr_scheduler
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> warm_up = schedules.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> decay = schedules.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = schedules.SequentialLR(optimizer, [warm_up, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [0.5, 0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        self.optimizer: Optimizer = _require_parts("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR: for {len(schedulers)} schedulers, milestones must hold {len(schedulers) - 1} "
                f"epochs, not {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        # The constructor of each scheduler has set the learning rates of its epoch 0. Restore the initial
        # rates, and let the first scheduler set its rates again.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._undo_first_steps()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def _undo_first_steps(self) -> None:
        pending = list(self._schedulers)
        while pending:
            part = pending.pop()
            if isinstance(part, _Combined):
                pending += part._schedulers
            else:
                part.last_epoch -= 1

    def _update_lr(self, epoch: float | None = None) -> None:
        # Another SequentialLR calls this when it starts this scheduler.
        self.last_epoch = 0
        self._schedulers[0]._update_lr(epoch)
        self._last_lr = self._schedulers[0].get_last_lr()

    def _advance(self) -> None:
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


@set_module("nn.optim.lr_scheduler")
class ChainedScheduler(_Combined):
    """Chains schedulers: each changes the learning rates that the previous one has set.

    Parameters
    ----------
    schedulers
        At least one scheduler, all of the same optimizer.
    optimizer
        The optimizer of all schedulers; None for that of the first scheduler.

    Raises
    ------
    ValueError
        If the list is empty, or a scheduler has another optimizer.

    Examples
    --------
    >>> import nn
    >>> schedules = nn.optim.lr_scheduler
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> warm_up = schedules.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> decay = schedules.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = schedules.ChainedScheduler([warm_up, decay])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> rates
    [0.5, 0.25, 0.25, 0.125]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer: Optimizer = _require_parts("ChainedScheduler", schedulers, optimizer)
        self._schedulers = schedulers
        self._last_lr = self._current()

    def _update_lr(self, epoch: float | None = None) -> None:
        for part in self._schedulers:
            part._update_lr(epoch)
        self._last_lr = self._current()

    def _advance(self) -> None:
        for part in self._schedulers:
            part.step()
        self._last_lr = self._current()
