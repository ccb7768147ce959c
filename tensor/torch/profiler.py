"""``torch.profiler``, based on ``scopes.Timeline``, which records scopes, tensors and memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Self

import scopes

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "tensorboard_trace_handler",
]


class ProfilerActivity(Enum):
    """The common activities of PyTorch's profiler, without effect here."""

    CPU = 0
    CUDA = 1
    XPU = 2


class ProfilerAction(Enum):
    """The action for a step of a ``schedule``."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Return a schedule of steps: skip, wait, warm up, record. It repeats without end, or `repeat` times.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> action = torch.profiler.schedule(wait=1, warmup=0, active=2)
    >>> [action(step).name for step in range(4)]
    ['NONE', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    length = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        if step < 0 or (repeat > 0 and step // length >= repeat):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if place == length - 1 else ProfilerAction.RECORD

    return action


@dataclass(frozen=True)
class _Row:
    key: str
    count: int
    cpu_time_total: float

    @property
    def cpu_time(self) -> float:
        """The average time of a call in microseconds."""
        return self.cpu_time_total / self.count


class _Averages(list[_Row]):
    def table(self, sort_by: str | None = None, row_limit: int = 100) -> str:
        """Return the rows as text, longest time first."""
        del sort_by
        rows = sorted(self, key=lambda row: -row.cpu_time_total)[:row_limit]
        width = max([len("Name"), *(len(row.key) for row in rows)])
        lines = [f"{'Name':{width}}  {'Calls':>8}  {'CPU total':>12}  {'CPU time avg':>12}"]
        lines += [
            f"{row.key:{width}}  {row.count:8}  {row.cpu_time_total:10.1f}us  {row.cpu_time:10.1f}us"
            for row in rows
        ]
        return "\n".join(lines)


_running: list[profile] = []


class record_function(ContextDecorator):  # noqa: N801 -- PyTorch's name
    """Context manager and decorator whose time is in ``profile.key_averages()`` under `name`."""

    def __init__(self, name: str, args: str | None = None) -> None:
        del args
        self.name: str = name
        self._begun: list[int] = []

    def __enter__(self) -> Self:
        self._begun.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: object) -> None:
        took = time.perf_counter_ns() - self._begun.pop()
        for each in _running:
            each.note(self.name, took)


class profile:  # noqa: N801 -- PyTorch's name
    """Record scopes, tensors and memory in the block: PyTorch's interface of ``scopes.Timeline``.

    Times of single ops are not recorded: ``key_averages()`` only has ``record_function`` blocks.

    Parameters
    ----------
    activities, record_shapes, profile_memory, with_stack, with_flops, with_modules
        No effect: memory is always recorded, shapes and stacks never.
    schedule
        The schedule of recorded steps, from ``schedule(...)``. ``step()`` ends a step.
    on_trace_ready
        Function that is called with this profiler at the end of each recording.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> with torch.profiler.profile() as found, torch.profiler.record_function("add"):
    ...     x = torch.ones(3) + 1
    >>> [(row.key, row.count) for row in found.key_averages()]
    [('add', 1)]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:
        del activities, record_shapes, profile_memory, with_stack, with_flops, with_modules
        self._schedule = schedule
        self._on_trace_ready = on_trace_ready
        self._timeline: scopes.Timeline | None = None
        self._is_recording = False
        self._times: dict[str, tuple[int, int]] = {}
        self.step_num: int = 0

    def note(self, name: str, nanoseconds: int) -> None:
        """Add one call of `name` to the averages."""
        count, total = self._times.get(name, (0, 0))
        self._times[name] = count + 1, total + nanoseconds

    def start(self) -> None:
        """Start the profiler, as the ``with`` block does."""
        self._turn(self._action())

    def stop(self) -> None:
        """Stop the profiler, as the ``with`` block does."""
        if self._is_recording:
            self._end()

    def step(self) -> None:
        """End a step. The schedule gives the action for the next one."""
        if self._schedule is None:
            self.step_num += 1
            return
        if self._is_recording and self._action() is ProfilerAction.RECORD_AND_SAVE:
            self._end()
        self.step_num += 1
        self._turn(self._action())

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self._schedule is None else self._schedule(self.step_num)

    def _turn(self, action: ProfilerAction) -> None:
        wants = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if wants and not self._is_recording:
            self._timeline = scopes.Timeline()
            self._timeline.__enter__()
            self._times = {}
            self._is_recording = True
            _running.append(self)
        elif not wants and self._is_recording:
            self._end()

    def _end(self) -> None:
        if self._timeline is not None:
            self._timeline.__exit__(None, None, None)
        self._is_recording = False
        _running.remove(self)
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline as a trace for https://ui.perfetto.dev."""
        if self._timeline is None:
            raise RuntimeError("nothing was recorded: write `with torch.profiler.profile() as p:` around it")
        self._timeline.save(path)

    def key_averages(self, group_by_input_shape: bool = False) -> _Averages:
        """Return the calls and times of each ``record_function`` block, in microseconds."""
        del group_by_input_shape
        return _Averages(_Row(key, count, total / 1000) for key, (count, total) in self._times.items())


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a function for ``on_trace_ready`` that writes each trace into the folder `dir_name`."""

    def write(found: profile) -> None:
        folder = Path(dir_name)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{worker_name or os.getpid()}.{time.time_ns()}.pt.trace.json{'.gz' if use_gzip else ''}"
        found.export_chrome_trace(folder / name)

    return write
