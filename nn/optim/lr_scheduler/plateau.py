"""Step sizes that fall when training no longer gets on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.optim.lr_scheduler.scheduler import LRScheduler, one_for_each_group, require_optimizer
from tensor.lowlevel import shown

if TYPE_CHECKING:
    from nn.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """Multiplies step sizes by `factor` when a figure has not become better for more than `patience` epochs.

    Parameters
    ----------
    optimizer
        Whose step sizes are set.
    mode
        ``"min"`` where less is better, as of a loss; ``"max"`` where more is.
    factor
        What step sizes are multiplied by, below 1.
    patience
        How many epochs without a better figure are let pass.
    threshold
        By how much a figure must be better to count.
    threshold_mode
        ``"rel"``: `threshold` is a share of the best figure; ``"abs"``: it is a difference.
    cooldown
        How many epochs after each change are not looked at.
    min_lr
        What step sizes do not fall below; one for all groups, or a list of one for each.
    eps
        A change that is smaller is not made.

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
            raise ValueError(
                f"{name}: factor is what step sizes are multiplied by, below 1, not {shown(factor)}"
            )
        if mode not in ("min", "max"):
            raise ValueError(f"{name}: mode is 'min' or 'max', not {shown(mode)}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"{name}: threshold_mode is 'rel' or 'abs', not {shown(threshold_mode)}")
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.cooldown_counter: int = 0
        self.min_lrs: list[float] = one_for_each_group(name, "min_lr", optimizer, min_lr)
        self.eps = eps
        self.best: float = float("inf") if mode == "min" else float("-inf")
        self.num_bad_epochs: int = 0
        self.last_epoch = 0
        self._last_lr = self._current()

    # Without a metric do nothing.
    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Go on to the next epoch, or to `epoch`, with the figure `metrics`: a number or a tensor of one."""
        figure = float(metrics)
        self.last_epoch: int = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(figure, self.best):
            self.best = figure
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
        """Whether the last change is so recent that figures are not looked at."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Tell whether the figure `a` is better than `best` by more than the threshold."""
        sign = 1 if self.mode == "max" else -1
        least = (
            best * (1 + sign * self.threshold)
            if self.threshold_mode == "rel"
            else best + sign * self.threshold
        )
        return a > least if self.mode == "max" else a < least
