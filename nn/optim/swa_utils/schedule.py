"""The learning rates for averaged models."""

from __future__ import annotations

import math

from nn.optim.lr_scheduler.scheduler import LRScheduler, one_for_each_group, require_optimizer
from nn.optim.optimizer import Optimizer
from scopes._shared.naming import set_module
from tensor._errors import shown


@set_module("nn.optim.swa_utils")
class SWALR(LRScheduler):
    """Changes learning rates to `swa_lr` in `anneal_epochs` epochs, then keeps it (Izmailov et al., 2018).

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    swa_lr
        The final learning rate: a number, or a list with one for each group. The groups store it as
        ``"swa_lr"``.
    anneal_epochs
        The number of epochs of the change; 0 for an immediate change.
    anneal_strategy
        ``"cos"`` for cosine annealing, ``"linear"`` for linear annealing.
    last_epoch
        The number of the last completed epoch; -1 to start.

    Raises
    ------
    ValueError
        If an option is out of its range.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [1.0, 0.75, 0.5, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        require_optimizer("SWALR", optimizer)
        rates = one_for_each_group("SWALR", "swa_lr", optimizer, swa_lr)
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"SWALR: anneal_strategy must be 'cos' or 'linear', not {shown(anneal_strategy)}"
            )
        if anneal_epochs < 0 or anneal_epochs % 1:
            raise ValueError(
                f"SWALR: anneal_epochs must be an integer of at least 0, not {shown(anneal_epochs)}"
            )
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs = anneal_epochs
        self._anneal_strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups, computed from the current ones."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._fraction(step - 1), self._fraction(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            # Compute the learning rate at the start of the annealing from the current one.
            begin = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + begin * (1 - now))
        return rates

    def _fraction(self, step: int) -> float:
        """Return the fraction of the annealing, from 0 to 1, after `step` steps."""
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return part if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * part)) / 2
