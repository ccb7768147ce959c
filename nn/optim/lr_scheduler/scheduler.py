"""The base class of schedulers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from nn.optim.optimizer import Optimizer
from scopes._shared.naming import set_module
from tensor._errors import shown


@set_module("nn.optim.lr_scheduler")
class LRScheduler:
    """Base class of all schedulers. Subclasses define ``get_lr``.

    Most schedulers multiply the current learning rates, so several can change the rates of one optimizer.
    Each call of ``step`` starts an epoch. An "epoch" may also be a batch.

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set. The initial ones are stored in its groups as
        ``"initial_lr"``.
    last_epoch
        The number of the last completed epoch, to continue with an optimizer whose state was loaded; -1 to
        start.

    Attributes
    ----------
    base_lrs
        The initial learning rates of the groups.
    last_epoch
        The number of the epoch whose learning rates are set.

    Raises
    ------
    TypeError
        If `optimizer` is not an optimizer.
    KeyError
        If a group has no ``"initial_lr"`` and `last_epoch` is not -1.

    Examples
    --------
    >>> import nn
    >>> class HalvedLR(nn.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
    >>> schedule = HalvedLR(nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0))
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    # True during the first step, which the constructor makes.
    _is_initial = False
    _step_count = 0
    _last_lr: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        require_optimizer(type(self).__name__, optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: last_epoch={last_epoch} requires 'initial_lr' in each parameter "
                    f"group, but group {i} has none: load the optimizer's state dict first, or omit "
                    "last_epoch"
                )
        self.optimizer = optimizer
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch: int = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups in epoch ``last_epoch``. ``step`` calls it."""
        raise NotImplementedError

    # Computes the learning rates from the epoch and not from the current rates, for ``step(epoch)``.
    _get_closed_form_lr: Callable[[], list[float]] | None = None

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to `epoch`, and set the learning rates."""
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: float | None = None) -> None:
        before = self.last_epoch
        closed = self._get_closed_form_lr
        self.last_epoch = before + 1 if epoch is None else int(epoch)
        try:
            rates = self.get_lr() if epoch is None or closed is None else closed()
        except BaseException:
            self.last_epoch = before
            raise
        self._set(rates)

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = self._current()

    def _current(self) -> list[float]:
        """Return the current learning rate of each group."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> list[float]:
        """Return the current learning rates times `factor`."""
        return [rate * factor for rate in self._current()]

    def get_last_lr(self) -> list[float]:
        """Return the learning rate of each group, as the last call of ``step`` set it."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the scheduler, without the optimizer."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``state_dict()``. Also load the optimizer's state: it holds the rates."""
        vars(self).update(state_dict)


def require_optimizer(name: str, optimizer: object) -> None:
    """Raise TypeError unless `optimizer` is an `Optimizer`."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{name} requires an optimizer, not {type(optimizer).__name__}")


def require_epochs(name: str, option: str, value: object) -> None:
    """Raise ValueError unless `value` is a number of epochs of at least 1."""
    if not isinstance(value, int) or value < 1:
        raise ValueError(f"{name}: {option} must be an integer of at least 1, not {shown(value)}")


def one_for_each_group(name: str, option: str, optimizer: Optimizer, given: Any) -> list[Any]:
    """Return a list with one value for each group. `given` is this list, or one value for all groups."""
    count = len(optimizer.param_groups)
    if not isinstance(given, (list, tuple)):
        return [given] * count
    if len(given) != count:
        raise ValueError(
            f"{name}: {option} must be one value, or one for each of the optimizer's {count} parameter "
            f"groups, not {len(given)} values"
        )
    return list(given)


def state_of_function(function: object) -> dict[str, Any] | None:
    """Return the attributes of a callable object, or None for a plain function."""
    return None if isinstance(function, FunctionType) else dict(getattr(function, "__dict__", {}))
