"""Watch a job: its workers send figures and leaks to the process that started the job."""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nn.parallel import group as groups
from nn.parallel.board import Board
from nn.parallel.errors import WorkerLostError, require
from nn.parallel.posts import WorkerReport
from nn.parallel.torch_models import lost_worker
from nn.parallel.traces import merge
from scopes import Timeline, snapshot, track
from scopes._shared.naming import set_module
from scopes.reports.history import History
from scopes.reports.leak_report import lines_of
from scopes.reports.runs import record_of

# The reports of the last job's workers until another job ends, and the boards of running jobs.
_last: dict[int, WorkerReport] = {}
_running: list[Board] = []


def worker_reports() -> dict[int, WorkerReport]:
    """Return the reports of the workers of this process's job.

    If a worker can't read them, the function warns and returns an empty dict, so that the loop continues.
    """
    board = groups.current().board
    if board is None:
        return _running[-1].read() if _running else _last
    try:
        return board.read()
    except require("ray.exceptions").RayError as error:
        warnings.warn(f"reading the reports of the workers failed: {error}", RuntimeWarning, stacklevel=4)
        return {}


@set_module("nn.parallel")
class Watch:
    """Context manager around ``fit()`` that watches a job of Ray Train.

    `Trainer` uses it. Use it directly for jobs that train without `nn`, such as PyTorch jobs. Inside the
    block and after it, `statistics`, `memory` and `leaks` describe the job's workers.

    Parameters
    ----------
    track
        Run the loop of each worker inside ``scopes.track()``, for `leaks`.
    trace
        A trace file to write after the job, for https://ui.perfetto.dev: scopes and memory over time, with a
        process for each worker. It is compressed if the name ends in ``.gz``.

    Examples
    --------
    >>> from nn import parallel
    >>> watch = parallel.Watch(track=True)
    >>> loop = watch.loop(lambda config: None)
    """

    def __init__(self, *, track: bool = False, trace: str | os.PathLike[str] | None = None) -> None:
        self._track = track
        self._trace = None if trace is None else Path(trace).absolute()
        self._loops: list[WatchedLoop] = []
        self.board: Board | None = None

    def loop(self, train_loop: Callable[..., Any]) -> Callable[..., Any]:
        """Return `train_loop` as a watched function, for a trainer of Ray Train."""
        watched = WatchedLoop(train_loop, is_tracking=self._track, is_traced=self._trace is not None)
        watched.board = self.board
        self._loops.append(watched)
        return watched

    def __enter__(self) -> Self:
        board = self.board = Board.start()
        self._interrupts = _restored_interrupt_handler()
        self._interrupts.__enter__()
        for watched in self._loops:
            watched.board = board
        _running.append(board)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _last
        board, self.board = self.board, None
        assert board is not None
        _running.remove(board)
        for watched in self._loops:
            watched.board = None
        _last = {}
        try:
            _last = board.read()
        except require("ray.exceptions").RayError as lost:  # the result or error of the job is more important
            warnings.warn(f"the reports of the workers are lost: {lost}", RuntimeWarning, stacklevel=2)
        finally:
            self._interrupts.__exit__(None, None, None)
            board.stop()
        for report in _last.values():
            if not report.has_ended and not report.lost:
                report.lost = "it did not report its end: it was killed, or stopped with the others"
        if self._trace is not None:
            merge(self._trace, _last)


@contextmanager
def _restored_interrupt_handler() -> Iterator[None]:
    """Restore the handler of Ctrl-C at the end: Ray Train replaces it, and never restores it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # None: the handler was not set by Python
            signal.signal(signal.SIGINT, before)


class WatchedLoop:
    """Training loop that reports its worker's figures to a `Board`."""

    def __init__(self, train_loop: Callable[..., Any], *, is_tracking: bool, is_traced: bool) -> None:
        self.__wrapped__ = train_loop  # Ray reads its parameters
        self._is_tracking = is_tracking
        self._is_traced = is_traced
        self.board: Board | None = None

    def __call__(self, *config: Any) -> Any:
        has_joined = groups.join_expected()
        board = self.board
        if board is None:  # not inside a `Watch`, or another job uses the loop
            return self._run_alone(config)
        if not has_joined:
            _join_alone(board)
        group = groups.current()
        group.where = _where()
        board.post(group.reports())
        try:
            return self._run(group, board, config)
        finally:
            if not has_joined:
                groups.leave()

    def _run_alone(self, config: tuple[Any, ...]) -> Any:
        """Run the loop without a job. `leaks` in this process returns its report."""
        global _last
        if not self._is_tracking:
            return self.__wrapped__(*config)
        group = groups.current()
        with _Observed() as observed:
            try:
                return self.__wrapped__(*config)
            finally:
                group.write_row()
                row, _ = group.rows()[group.place.rank]
                _last = {
                    group.place.rank: WorkerReport(row, _where(), has_ended=True, leaks=observed.report())
                }

    def _run(self, group: groups.Group, board: Board, config: tuple[Any, ...]) -> Any:
        trace = b""
        with ExitStack() as stack:
            observed = stack.enter_context(_Observed()) if self._is_tracking else None
            timeline = stack.enter_context(Timeline()) if self._is_traced else None
            began_at = time.time_ns()
            stack.enter_context(_steps_of_torch(group))
            lost = ""
            try:
                with _errors_of_lost_workers(group):
                    return self.__wrapped__(*config)
            except WorkerLostError:
                lost = "stopped, because another worker was lost"
                raise
            except BaseException as error:
                lost = f"stopped by {type(error).__name__}: {error}"
                raise
            finally:
                found = None if observed is None else observed.report()
                if timeline is not None:
                    trace = _bytes_of(timeline)
                group.write_row()
                last = {"lost": lost, "has_ended": not lost, "leaks": found}
                try:
                    board.post(group.reports(trace=trace, trace_began_at=began_at, **last), wait=True)
                except require("ray.exceptions").RayError as gone:
                    # The result or error of the loop is more important.
                    warnings.warn(f"the last figures could not be sent: {gone}", RuntimeWarning, stacklevel=2)


class _Observed:
    """Tracking of a loop: leaks at the end and at the high-water mark."""

    def __enter__(self) -> Self:
        self._tracking = track()
        self._tracking.__enter__()
        self._history = History(since=snapshot())
        self._history.begin()
        return self

    def report(self) -> dict[str, Any]:
        """Return the report of the ended loop as plain data."""
        self._history.end()
        gc.collect()  # garbage is not a leak
        record = record_of(self._history, "the loop")
        highest = record.highest
        return {
            "highest": None if highest is None else {"after": highest[1], **highest[0].to_dict()},
            "at_the_end": record.latest.to_dict(),
            "leaking": [{"lines": lines_of(site), "risen": risen} for site, risen in record.growing],
            "moments": [list(moment) for moment in record.moments],
        }

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._history.end()
        self._tracking.__exit__(kind, error, traceback)


@contextmanager
def _errors_of_lost_workers(group: groups.Group) -> Iterator[None]:
    """Raise `WorkerLostError` instead of PyTorch's error for a broken connection."""
    try:
        yield
    except RuntimeError as error:
        lost = None
        if "torch" in sys.modules and not isinstance(error, WorkerLostError):
            lost = lost_worker(error, group)
        if lost is None:
            raise
        try:
            raise lost from error
        finally:
            del lost  # the variable and the traceback would be a cycle, which keeps the callers' tensors


def _where() -> str:
    return f"{platform.node()}, process {os.getpid()}"


def _join_alone(board: Board) -> None:
    """Make this process a worker of a job that exchanges gradients with another library."""
    context = require("ray.train").get_context()
    place = groups.Place(context.get_world_rank(), context.get_world_size())
    groups.join(groups.Group(place, ranks=(place.rank,), board=board, is_connected=False))


def _steps_of_torch(group: groups.Group) -> Any:
    """Count the steps of PyTorch's optimizers in a block, if another library exchanges gradients."""
    stack = ExitStack()
    torch = sys.modules.get("torch") if not group.is_connected else None
    if torch is not None:
        optimizers = require("torch.optim.optimizer")
        handle = optimizers.register_optimizer_step_post_hook(lambda *_: group.note_step(0.0))
        stack.callback(handle.remove)
    return stack


def _bytes_of(timeline: Timeline) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json.gz")
        timeline.save(path)
        return path.read_bytes()
