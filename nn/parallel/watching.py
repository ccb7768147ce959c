"""A job that is watched: its workers tell what they hold, and who has started it reads that."""

from __future__ import annotations

import os
import platform
import signal
import sys
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from nn.parallel import group as groups
from nn.parallel.board import Board, Told
from nn.parallel.errors import WorkerLostError, require
from nn.parallel.traces import merge
from scopes import Timeline, is_tracking, leaks, track

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

# What the workers of the last job told, until another is over; and the boards of those that run.
_last: dict[int, Told] = {}
_running: list[Board] = []


def told() -> dict[int, Told]:
    """Return what the workers of the job told that this process has started, or works in.

    In a worker nothing but a warning where that can't be read: its loop shall not end by asking.
    """
    board = groups.current().board
    if board is None:
        return _running[-1].read() if _running else _last
    try:
        return board.read()
    except require("ray.exceptions").RayError as error:
        warnings.warn(f"what the workers told can't be read: {error}", RuntimeWarning, stacklevel=4)
        return {}


class Watch:
    """Watch a job of Ray Train: a ``with`` block around its ``fit()``.

    `Trainer` contains it. Use it directly for jobs that train without `nn`, for example those of PyTorch.
    Inside the block and after it, `statistics`, `memory` and `leaks` speak of the job's workers.

    Parameters
    ----------
    track
        Let each worker note which lines create what, for `leaks`: the loop runs inside ``scopes.track()``.
    trace
        A file to write when the job is over: the scopes and the memory of all workers over time, a process
        each, for https://ui.perfetto.dev; compressed if the name ends in ``.gz``.

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
        """Return `train_loop` as a function whose workers are watched; for a trainer of Ray Train."""
        watched = WatchedLoop(train_loop, is_tracking=self._track, is_traced=self._trace is not None)
        watched.board = self.board
        self._loops.append(watched)
        return watched

    def __enter__(self) -> Self:
        board = self.board = Board.start()
        self._interrupts = _own_interrupts()
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
        except require("ray.exceptions").RayError as lost:  # what the job returns or raises is worth more
            warnings.warn(f"what the workers told is lost: {lost}", RuntimeWarning, stacklevel=2)
        finally:
            self._interrupts.__exit__(None, None, None)
            board.stop()
        for it in _last.values():
            if not it.has_ended and not it.lost:
                it.lost = "it has sent no word of its end: it was killed, or stopped with the others"
        if self._trace is not None:
            merge(self._trace, _last)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Put back the handler of Ctrl-C, which Ray Train replaces for good by one that keeps its controller."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:  # one that was not set by Python
            signal.signal(signal.SIGINT, before)


class WatchedLoop:
    """A training loop that tells the board what its worker holds."""

    def __init__(self, train_loop: Callable[..., Any], *, is_tracking: bool, is_traced: bool) -> None:
        self.__wrapped__ = train_loop  # Ray asks for the parameters
        self._is_tracking = is_tracking
        self._is_traced = is_traced
        self.board: Board | None = None

    def __call__(self, *config: Any) -> Any:
        is_ours = groups.join_expected()
        board = self.board
        if board is None:  # somebody else has taken the loop
            return self.__wrapped__(*config)
        if not is_ours:
            _join_alone(board)
        group = groups.current()
        group.where = f"{platform.node()}, process {os.getpid()}"
        board.post(group)
        try:
            return self._run(group, board, config)
        finally:
            if not is_ours:
                groups.leave()

    def _run(self, group: groups.Group, board: Board, config: tuple[Any, ...]) -> Any:
        trace = b""
        with ExitStack() as stack:
            if self._is_tracking:
                stack.enter_context(track())
            timeline = stack.enter_context(Timeline()) if self._is_traced else None
            began_at = time.time_ns()
            stack.enter_context(_steps_of_torch(group))
            lost = ""
            try:
                return self.__wrapped__(*config)
            except WorkerLostError:
                lost = "stopped, because another worker was lost"
                raise
            except BaseException as error:
                lost = f"stopped by {type(error).__name__}: {error}"
                raise
            finally:
                found = leaks().to_dict() if is_tracking() else None
                if timeline is not None:
                    trace = _bytes_of(timeline)
                group.write_row()
                last = {"lost": lost, "has_ended": not lost, "leaks": found}
                try:
                    board.post(group, wait=True, trace=trace, trace_began_at=began_at, **last)
                except require("ray.exceptions").RayError as gone:
                    # Whatever the loop returns or raises is worth more.
                    warnings.warn(f"last figures could not be told: {gone}", RuntimeWarning, stacklevel=2)


def _join_alone(board: Board) -> None:
    """Let this process be one of a job whose exchange is another library's."""
    context = require("ray.train").get_context()
    place = groups.Place(context.get_world_rank(), context.get_world_size())
    groups.join(groups.Group(place, ranks=(place.rank,), board=board, is_connected=False))


def _steps_of_torch(group: groups.Group) -> Any:
    """Count the steps of PyTorch's optimizers, where the job is one of PyTorch's own."""
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
