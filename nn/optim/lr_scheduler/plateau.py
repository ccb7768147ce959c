"""Reduce learning rates when a metric stops improving."""

from __future__ import annotations

from typing import Any

from nn.optim.lr_scheduler.scheduler import LRScheduler, one_for_each_group, require_optimizer
from nn.optim.optimizer import Optimizer
from scopes._shared.naming import set_module
from tensor._errors import shown


@set_module("nn.optim.lr_scheduler")
class ReduceLROnPlateau(LRScheduler):
    """Multiplies learning rates by `factor` when a metric has not improved for more than `patience` epochs.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    mode
        ``"min"`` if a lower metric is better, such as a loss, else ``"max"``.
    factor
        The factor of the learning rates, below 1.
    patience
        The number of epochs without improvement to wait.
    threshold
        The least improvement that counts.
    threshold_mode
        ``"rel"`` for a `threshold` relative to the best metric, ``"abs"`` for a difference.
    cooldown
        The number of epochs after each change in which a lack of improvement does not count.
    min_lr
        The lower bound of learning rates: a number, or a list with one for each group.
    eps
        The least change of a learning rate; smaller changes are ignored.

    Raises
    ------
    ValueError
        If `factor` is not below 1, or a mode is unknown.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    >>> for loss in (0.5, 0.5, 0.5):
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        name = "ReduceLROnPlateau"
        require_optimizer(name, optimizer)
        if factor >= 1.0:
            raise ValueError(f"{name}: factor must be below 1, not {shown(factor)}")
        if mode not in ("min", "max"):
            raise ValueError(f"{name}: mode must be 'min' or 'max', not {shown(mode)}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"{name}: threshold_mode must be 'rel' or 'abs', not {shown(threshold_mode)}")
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.eps = eps
        self.cooldown_counter = 0
        self.min_lrs: list[float] = one_for_each_group(name, "min_lr", optimizer, min_lr)
        self.best = float("inf") if mode == "min" else float("-inf")
        self.num_bad_epochs = 0
        self.last_epoch = 0
        self._last_lr = self._current()

    # Unlike other schedulers, this one needs a metric.
    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Advance to the next epoch, or to `epoch`. `metrics` is a number or a tensor of one element."""
        metric = float(metrics)
        self.last_epoch: int = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(metric, self.best):
            self.best = metric
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._current()

    def _reduce(self) -> None:
        for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            rate = max(group["lr"] * self.factor, least)
            if group["lr"] - rate > self.eps:
                group["lr"] = rate

    @property
    def in_cooldown(self) -> bool:
        """Whether a lack of improvement does not count now, because the last change was recent."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Return whether the metric `a` is better than `best` by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        least = (
            best * (1 + sign * self.threshold)
            if self.threshold_mode == "rel"
            else best + sign * self.threshold
        )
        return a > least if self.mode == "max" else a < least
