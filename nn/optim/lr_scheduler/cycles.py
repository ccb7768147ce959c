"""Cyclical learning rates, with a momentum that changes in the opposite direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from nn.optim.lr_scheduler.scheduler import (
    LRScheduler,
    one_for_each_group,
    require_epochs,
    require_optimizer,
    state_of_function,
)
from nn.optim.optimizer import Group, Optimizer
from scopes._shared.naming import set_module
from tensor._errors import shown


class _Cycles(LRScheduler):
    """Base class of schedulers that also set the momentum, or the first of ``betas``."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momenta(
        self, optimizer: Optimizer, lowest: float | list[float], highest: float | list[float], last_epoch: int
    ) -> tuple[list[float], list[float]]:
        """Store and return the lowest and the highest momentum of each group. The first step sets them."""
        name = type(self).__name__
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError(
                f"{name}: {type(optimizer).__name__} has neither momentum nor betas: pass "
                "cycle_momentum=False"
            )
        self.use_beta1 = "betas" in optimizer.defaults
        lows = one_for_each_group(name, "base_momentum", optimizer, lowest)
        highs = one_for_each_group(name, "max_momentum", optimizer, highest)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                group["max_momentum"], group["base_momentum"] = high, low
        return lows, highs

    def _set_momentum(self, group: Group, momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


@set_module("nn.optim.lr_scheduler")
class CyclicLR(_Cycles):
    """Cycles learning rates from `base_lr` to `max_lr` and back (Smith, 2017).

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    base_lr, max_lr
        The lowest and the highest learning rate: numbers, or lists with one for each group.
    step_size_up
        The number of steps of the increasing half.
    step_size_down
        The number of steps of the decreasing half; by default `step_size_up`.
    mode
        ``"triangular"``; ``"triangular2"``, which halves the amplitude after each cycle; or ``"exp_range"``,
        which multiplies the amplitude by `gamma` at each step.
    gamma
        The factor of ``"exp_range"``.
    scale_fn
        A function that returns the factor of the amplitude, instead of `mode`.
    scale_mode
        The argument of `scale_fn`: ``"cycle"`` for the number of the cycle, ``"iterations"`` for the
        number of the step.
    cycle_momentum
        Decrease the momentum while learning rates increase.
    base_momentum, max_momentum
        The lowest and the highest momentum.
    last_epoch
        The number of the last completed step; -1 to start.

    Raises
    ------
    ValueError
        If the optimizer has no momentum to cycle, or the mode is unknown.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.CyclicLR(
    ...     optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2, cycle_momentum=False
    ... )
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [0.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: float = 2000,
        step_size_down: float | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        require_optimizer("CyclicLR", optimizer)
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError(
                f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', not {shown(mode)}. "
                "Other cycles require scale_fn"
            )
        lows = one_for_each_group("CyclicLR", "base_lr", optimizer, base_lr)
        self.max_lrs: list[float] = one_for_each_group("CyclicLR", "max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size: float = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio: float = up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self.scale_mode: str = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self._scale_fn_custom = scale_fn
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums: list[float]
            self.max_momentums: list[float]
            self.base_momentums, self.max_momentums = self._begin_momenta(
                optimizer, base_momentum, max_momentum, last_epoch
            )
        if last_epoch == -1:
            for group, low in zip(optimizer.param_groups, lows, strict=True):
                group["lr"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x: float) -> float:
        """Return the factor of the amplitude in cycle or step `x`."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return float(1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups, and set their momenta."""
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        place = 1.0 + self.last_epoch / self.total_size - cycle
        is_rising = place <= self.step_ratio
        height = place / self.step_ratio if is_rising else (place - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.base_momentums, self.max_momentums, strict=True)
            for group, (low, high) in zip(self.optimizer.param_groups, momenta, strict=True):
                self._set_momentum(group, high - (high - low) * height * scale)
        rates = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height * scale for low, high in rates]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the scheduler, with the attributes of `scale_fn` if it is a callable object."""
        function = self._scale_fn_custom
        held = None if function is None else state_of_function(function)
        return {**super().state_dict(), "_scale_fn_custom": held}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state from ``state_dict()``. Restore the attributes of `scale_fn`."""
        state = dict(state_dict)
        held = state.pop("_scale_fn_custom")
        if held is not None:
            vars(self._scale_fn_custom).update(held)
        super().load_state_dict(state)


@set_module("nn.optim.lr_scheduler")
class OneCycleLR(_Cycles):
    """Increases learning rates to `max_lr` and decreases them to almost 0, in one cycle (Smith, 2018).

    Parameters
    ----------
    optimizer
        The optimizer whose learning rates are set.
    max_lr
        The highest learning rate: a number, or a list with one for each group.
    total_steps
        The number of steps; for None `epochs` times `steps_per_epoch`.
    epochs, steps_per_epoch
        The number of epochs, and the number of steps in each, if `total_steps` is None.
    pct_start
        The fraction of the steps, from 0 to 1, in which learning rates increase.
    anneal_strategy
        ``"cos"`` for cosine annealing, ``"linear"`` for linear annealing.
    cycle_momentum
        Decrease the momentum while learning rates increase.
    base_momentum, max_momentum
        The lowest and the highest momentum.
    div_factor
        `max_lr` divided by the first learning rate.
    final_div_factor
        The first learning rate divided by the last one.
    three_phase
        Decrease to the first learning rate in as many steps as the increase takes, and then to the last rate.
    last_epoch
        The number of the last completed step; -1 to start.

    Raises
    ------
    ValueError
        If the number of steps is not given, or an option is out of its range. ``step`` raises it when the
        number of the step is above `total_steps`.

    Examples
    --------
    >>> import nn
    >>> optimizer = nn.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0)
    >>> schedule = nn.optim.lr_scheduler.OneCycleLR(
    ...     optimizer, max_lr=1.0, total_steps=5, pct_start=0.6, cycle_momentum=False
    ... )
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     schedule.step()
    >>> [round(rate, 3) for rate in rates]
    [0.04, 0.52, 1.0, 0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        name = "OneCycleLR"
        require_optimizer(name, optimizer)
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError(
                    f"{name} requires the number of steps: pass total_steps, or epochs and steps_per_epoch"
                )
            require_epochs(name, "epochs", epochs)
            require_epochs(name, "steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        require_epochs(name, "total_steps", total_steps)
        if not 0 <= pct_start <= 1:
            raise ValueError(f"{name}: pct_start must be a fraction from 0 to 1, not {shown(pct_start)}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"{name}: anneal_strategy must be 'cos' or 'linear', not {shown(anneal_strategy)}"
            )
        self.total_steps = total_steps
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(pct_start, total_steps, three_phase)
        self.cycle_momentum = cycle_momentum
        highs = one_for_each_group(name, "max_lr", optimizer, max_lr)
        if cycle_momentum:
            self._begin_momenta(optimizer, base_momentum, max_momentum, last_epoch)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highs, strict=True):
                first = high / div_factor
                group |= {"initial_lr": first, "max_lr": high, "min_lr": first / final_div_factor}
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Return the learning rates of the groups, and set their momenta."""
        if self.last_epoch > self.total_steps:
            raise ValueError(
                f"OneCycleLR has {self.total_steps} steps, but this is step {self.last_epoch}: pass a larger "
                "total_steps"
            )
        begin = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if self.last_epoch <= end:
                break
            begin = end
        else:  # one step after the last one
            begin = self._schedule_phases[-2]["end_step"]
        place = (self.last_epoch - begin) / (end - begin)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                self._set_momentum(group, self._between(group, phase, "momentum", place))
        return [self._between(group, phase, "lr", place) for group in self.optimizer.param_groups]

    def _between(self, group: Group, phase: dict[str, Any], what: str, place: float) -> float:
        start, end = (float(group[phase[f"{side}_{what}"]]) for side in ("start", "end"))
        if self._anneal_func_type == "linear":
            return (end - start) * place + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * place) + 1)


def _phases(share: float, total: int, is_threefold: bool) -> list[dict[str, Any]]:
    """Return a dict for each phase: its last step, and the options with its start and end values."""

    def phase(
        end: float, start_lr: str, end_lr: str, start_momentum: str, end_momentum: str
    ) -> dict[str, Any]:
        return {
            "end_step": end,
            "start_lr": start_lr,
            "end_lr": end_lr,
            "start_momentum": start_momentum,
            "end_momentum": end_momentum,
        }

    low, high = "base_momentum", "max_momentum"
    rise = phase(float(share * total) - 1, "initial_lr", "max_lr", high, low)
    if not is_threefold:
        return [rise, phase(total - 1, "max_lr", "min_lr", low, high)]
    fall = phase(float(2 * share * total) - 2, "max_lr", "initial_lr", low, high)
    return [rise, fall, phase(total - 1, "initial_lr", "min_lr", high, high)]
