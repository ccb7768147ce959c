"""Worker process of a loader: it creates batches."""

from __future__ import annotations

import os
import pickle
import random
import signal
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import numpy as np

from nn.data.fetching import EXHAUSTED, Fetcher, Recipe
from nn.data.shared_blocks import WorkerBlocks, pack
from scopes import DisposeScope
from scopes._shared.naming import set_module
from scopes.core.scope import current
from tensor import manual_seed, set_num_threads

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

# How often a worker checks that its parent process is alive, because the connection may stay open.
CHECK_INTERVAL = 1.0  # seconds
# The time for a worker to exit before it is killed, and for a worker whose parent process has exited.
GRACE = 5.0  # seconds
_ORPHAN_EXIT_TIMEOUT = 1.0


@set_module("nn.data")
@dataclass(frozen=True)
class WorkerInfo:
    """Information on a worker, from `get_worker_info`."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


@dataclass(frozen=True)
class Job:
    """The arguments of a new worker."""

    recipe: Recipe
    id: int
    num_workers: int
    base_seed: int
    init_fn: Callable[[int], object] | None
    blocks: str  # the prefix of the names of its blocks of shared memory


@dataclass(frozen=True)
class Task:
    """Request of batch `order` of an epoch. A new `round`, the number of the epoch, restarts the data set."""

    round: int
    order: int
    numbers: Any
    returned: list[int]


@dataclass(frozen=True)
class Failure:
    """Error of a worker: pickled if possible, and as text."""

    pickled: bytes | None
    kind: str
    text: str


@dataclass(frozen=True)
class Answer:
    """Result of a task: a packed batch with its blocks, None if no samples are left, or an error."""

    round: int
    order: int
    batch: bytes | Failure | None
    blocks: list[int]
    made: int
    retired: list[int]


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return information on this `DataLoader` worker; None outside of workers.

    It has ``id``, ``num_workers``, ``seed`` (of this worker's random numbers) and ``dataset`` (the worker's
    copy). An ``IterableDataset`` can use them to select its part of the samples.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.data.get_worker_info() is None
    True
    """
    return _info


class _StoppedError(Exception):
    """The loader no longer needs the samples. Raised between two samples."""


def run(job: Job, connection: Connection, other_ends: Callable[[], None]) -> None:
    """Create batches until the parent process stops this: the main function of a worker's process."""
    # Ignore Ctrl-C, which a terminal sends to all its processes: the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    other_ends()
    current.set(None)  # a scope that was current at the fork belongs to the parent
    set_num_threads(1)
    _Worker(job, connection).run()


class _Worker:
    def __init__(self, job: Job, connection: Connection) -> None:
        self._job = job
        self._connection = connection
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._blocks = WorkerBlocks(job.blocks)
        self._ended = threading.Event()
        self._is_stopping = False
        self._is_orphan = False
        self._latest_round = -1  # of the received tasks
        self._fetcher: Fetcher | Failure | None = None
        self._is_exhausted = False

    def run(self) -> None:
        threading.Thread(target=self._listen_to_the_end, daemon=True).start()
        try:
            failed = self._prepare()
            begun = -1
            while (task := self._tasks.get()) is not None and not self._is_stopping:
                self._blocks.give_back(task.returned)
                if task.round != self._latest_round:
                    continue  # the loop has ended, and a new loop has begun
                if task.round != begun:
                    begun, self._is_exhausted = task.round, False
                    self._fetcher = failed or self._begin()
                if not self._is_exhausted:
                    self._answer(task)
        except (BrokenPipeError, ConnectionResetError, _StoppedError):
            pass  # the parent has closed the connection
        finally:
            if self._is_orphan:
                self._blocks.unlink()
            self._ended.set()

    def _listen_to_the_end(self) -> None:
        """Receive tasks at once, so that the sender never waits. Then exit if the main thread is late."""
        try:
            self._listen()
        finally:  # also after an error: without this thread the process would never exit
            self._is_stopping = True
            self._tasks.put(None)
        if not self._ended.wait(_ORPHAN_EXIT_TIMEOUT if self._is_orphan else GRACE):
            if self._is_orphan:
                self._blocks.unlink()
            os._exit(1)

    def _listen(self) -> None:
        from multiprocessing import parent_process
        from multiprocessing.connection import wait

        parent = parent_process()
        # With loky's start method the parent has no sentinel.
        sentinel = [] if parent is None or parent.sentinel is None else [parent.sentinel]
        first_parent = os.getppid()
        task: Task | None = None
        self._is_orphan = True
        while True:
            ready = wait([self._connection, *sentinel], CHECK_INTERVAL)
            if self._connection not in ready:
                if ready or os.getppid() != first_parent:
                    break
                continue
            try:
                task = self._connection.recv()
            except (EOFError, OSError):
                break
            if task is None:
                self._is_orphan = False
                break
            self._latest_round = task.round
            self._tasks.put(task)

    def _prepare(self) -> Failure | None:
        global _info
        job = self._job
        seed = job.base_seed + job.id
        random.seed(seed)
        manual_seed(seed)
        np.random.seed(np.random.SeedSequence([job.base_seed, job.id]).generate_state(4))
        _info = WorkerInfo(job.id, job.num_workers, seed, job.recipe.dataset)
        try:
            if job.init_fn is not None:
                job.init_fn(job.id)
        except Exception as error:  # noqa: BLE001 -- raised in the parent
            return _failure(error)
        return None

    def _begin(self) -> Fetcher | Failure:
        try:
            return self._job.recipe.fetcher()
        except Exception as error:  # noqa: BLE001 -- raised in the parent
            return _failure(error)

    def _answer(self, task: Task) -> None:
        batch: bytes | Failure | None
        blocks: list[int] = []
        try:
            batch, blocks = self._make(task.numbers)
        except _StoppedError:
            raise
        except Exception as error:  # noqa: BLE001 -- raised in the parent
            batch = _failure(error)
        self._is_exhausted = batch is None
        retired = self._blocks.retire()
        self._connection.send(Answer(task.round, task.order, batch, blocks, self._blocks.made(), retired))

    def _make(self, numbers: Any) -> tuple[bytes | Failure | None, list[int]]:
        fetcher = self._fetcher
        if not isinstance(fetcher, Fetcher):
            return fetcher, []
        samples = fetcher.fetch(self._until_stopped(numbers) if fetcher.takes_several else numbers)
        if samples is EXHAUSTED:
            return None, []
        with DisposeScope("a worker's batch"):
            return pack(fetcher.collate(samples), self._blocks)

    def _until_stopped(self, numbers: Iterable[Any]) -> Iterator[Any]:
        for number in numbers:
            if self._is_stopping:
                raise _StoppedError
            yield number


def _failure(error: Exception) -> Failure:
    text = "".join(traceback.format_exception(error))
    try:
        pickled = pickle.dumps(error)
    except Exception:  # noqa: BLE001 -- a user's class may raise anything: send the text
        pickled = None
    return Failure(pickled, type(error).__name__, text)
