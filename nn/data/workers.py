"""Manage the workers of a loader in the loop's process: start, tasks, answers, failures, end."""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakSet

from nn.data.fetching import Recipe
from nn.data.shared_blocks import LoopBlocks, unpack
from nn.data.worker import CHECK_INTERVAL, GRACE, Answer, Failure, Job, Task, run

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess


# The seconds that a busy system may need to end a process after a kill or a closed connection.
_EXIT_TIMEOUT = 30.0

_living: WeakSet[Workers] = WeakSet()
_open_ends: WeakSet[Connection[Any, Any]] = WeakSet()


class _Worker:
    """Worker process with its connection and blocks."""

    def __init__(self, context: BaseContext, job: Job) -> None:
        self.id = job.id
        self.blocks = LoopBlocks(job.blocks)
        self.connection, theirs = context.Pipe()
        _open_ends.add(self.connection)
        try:
            self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]  # of each context
                target=run,
                args=(job, theirs, _close_inherited),
                name=f"DataLoader worker {job.id}",
                daemon=True,
            )
            _start_without_interrupts(self.process)
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()


def _start_without_interrupts(process: BaseProcess) -> None:
    """Start a process that ignores Ctrl-C from the beginning."""
    if not hasattr(signal, "pthread_sigmask"):
        process.start()
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Workers:
    """Worker processes of one loader, for one epoch, or for several if they are persistent."""

    def __init__(
        self,
        recipe: Recipe,
        count: int,
        base_seed: int,
        init_fn: Callable[[int], object] | None,
        context: BaseContext,
    ) -> None:
        self._owner = os.getpid()
        self._round = 0
        self.members: list[_Worker] = []
        _prepare()
        _living.add(self)
        try:
            for i in range(count):
                name = f"ds_{os.getpid()}_{token_hex(4)}"
                job = Job(recipe, i, count, base_seed, init_fn, name)
                self.members.append(_Worker(context, job))
        except BaseException:
            self.stop(at_once=True)
            raise

    @property
    def is_stopped(self) -> bool:
        """Whether all processes have ended."""
        return not self.members

    def begin(self) -> int:
        """Begin an epoch, and return its number. The data set restarts, and earlier requests are dropped."""
        self._round += 1
        return self._round

    def send(self, worker: int, order: int, numbers: Any) -> None:
        """Request a batch from a worker."""
        to = self.members[worker]
        try:
            to.connection.send(Task(self._round, order, numbers, to.blocks.take_returned()))
        except (BrokenPipeError, ConnectionResetError):
            self._end_with(to)

    def receive(self, timeout: float) -> list[Answer]:
        """Return the answers of this epoch, after at most `timeout` seconds. Raise if a worker died."""
        from multiprocessing.connection import wait

        senders: dict[Any, _Worker] = {member.connection: member for member in self.members}
        sentinels = {member.process.sentinel: member for member in self.members}
        ready = wait([*senders, *sentinels], timeout)
        answers = [self._take(senders[one]) for one in ready if one in senders]
        if not answers:
            for member in self.members:
                if member.process.sentinel in ready or not member.process.is_alive():
                    self._end_with(member)
        return [answer for answer in answers if answer.round == self._round]

    def _take(self, worker: _Worker) -> Answer:
        try:
            answer: Answer = worker.connection.recv()
        except (EOFError, OSError):
            self._end_with(worker)
        try:
            worker.blocks.open(answer.made)
        except FileNotFoundError:  # the worker has ended and removed the names of its blocks
            self._end_with(worker)
        worker.blocks.retire(answer.retired)
        if answer.round != self._round:
            worker.blocks.give_back(answer.blocks)
        return answer

    def unpack(self, worker: int, answer: Answer) -> Any:
        """Return the batch of an answer, or raise its error."""
        member = self.members[worker]
        if isinstance(answer.batch, Failure):
            raise _error_of(answer.batch, f"worker {worker} (process {member.process.pid})")
        assert answer.batch is not None
        return unpack(answer.batch, answer.blocks, member.blocks)

    def discard(self, worker: int, answer: Answer) -> None:
        """Free the blocks of an unused answer."""
        self.members[worker].blocks.give_back(answer.blocks)

    def _end_with(self, worker: _Worker) -> NoReturn:
        """End all workers because `worker` has died, and raise an error with its exit code or signal."""
        worker.process.join(_EXIT_TIMEOUT)
        code, pid = worker.process.exitcode, worker.process.pid
        self.stop(at_once=True)
        raise RuntimeError(_death_message(worker.id, pid, code))

    def stop(self, at_once: bool = False) -> None:
        """End all processes; kill those that do not exit. Blocks of living tensors stay open."""
        members, self.members = self.members, []
        if os.getpid() != self._owner:
            return  # a forked child has this object, but not the processes
        for member in members:
            with suppress(OSError, ValueError):
                member.connection.send(None)
            member.connection.close()
        for end, seconds in ((None, 0.0 if at_once else GRACE), ("terminate", 1.0), ("kill", _EXIT_TIMEOUT)):
            for member in members:
                if end is not None and member.process.is_alive():
                    getattr(member.process, end)()
            until = time.monotonic() + seconds
            for member in members:
                member.process.join(max(0.0, until - time.monotonic()))
        for member in members:
            member.blocks.end()
            if not member.process.is_alive():
                with suppress(AttributeError):  # processes of loky have no close()
                    member.process.close()

    def __del__(self) -> None:
        self.stop()


@cache
def _prepare() -> None:
    """Prepare this process, once, before the first worker starts."""
    if os.name == "posix":
        from multiprocessing import resource_tracker

        # Start the resource tracker, which removes names of shared memory when all processes have ended.
        resource_tracker.ensure_running()
    # Register this after the function of `multiprocessing`, to run before it.
    atexit.register(_stop_all)


def _stop_all() -> None:
    for workers in list(_living):
        workers.stop(at_once=True)


def _close_inherited() -> None:
    """Close the parent's connections in a forked worker, so that other workers see the parent exit."""
    for connection in list(_open_ends):
        connection.close()


class WorkerEpoch:
    """One epoch: the requests to the workers, and their answers."""

    def __init__(
        self, workers: Workers, tasks: Iterator[Any], prefetch_factor: int, timeout: float, in_order: bool
    ) -> None:
        self._workers = workers
        self._tasks = tasks
        self._timeout = timeout
        self._in_order = in_order
        self._number = workers.begin()
        count = len(workers.members)
        self._max_requests = count * prefetch_factor
        self._active = list(range(count))  # starting with the next worker to use
        self._sent = 0
        self._requested: dict[int, int] = {}  # the worker of each requested batch, in order
        self._answers: dict[int, Answer] = {}
        self._request()

    def _request(self) -> None:
        while self._active and len(self._requested) < self._max_requests:
            try:
                numbers = next(self._tasks)
            except StopIteration:
                return
            worker = self._active.pop(0)
            self._active.append(worker)
            self._requested[self._sent] = worker
            self._sent += 1
            self._workers.send(worker, self._sent - 1, numbers)

    def next_batch(self) -> Any:
        """Return the next batch; its tensors belong to the current scope."""
        try:
            while True:
                order = self._wait()
                worker, answer = self._requested.pop(order), self._answers.pop(order)
                if answer.batch is None:
                    self._drop_worker(worker)
                try:
                    self._request()
                except Exception:
                    if not self._workers.is_stopped:
                        self._workers.discard(worker, answer)
                    raise
                if answer.batch is not None:
                    return self._workers.unpack(worker, answer)
        except BaseException as error:
            if not isinstance(error, Exception):
                self._workers.stop(at_once=True)  # Ctrl-C: stop at once, even if the error is stored
            raise

    def _drop_worker(self, worker: int) -> None:
        """Stop sending requests to a worker whose samples are used up. It ignores earlier requests."""
        self._active.remove(worker)
        for order in [order for order, asked in self._requested.items() if asked == worker]:
            del self._requested[order]

    def _wait(self) -> int:
        """Wait for the next batch, and return its number."""
        until = time.monotonic() + self._timeout if self._timeout else None
        while True:
            if not self._requested:
                raise StopIteration
            if self._workers.is_stopped:
                raise RuntimeError("the workers of this DataLoader have ended: start a new loop over it")
            wanted = next(iter(self._requested if self._in_order else self._answers), None)
            if wanted in self._answers:
                assert wanted is not None
                return wanted
            left = CHECK_INTERVAL if until is None else min(CHECK_INTERVAL, until - time.monotonic())
            if left <= 0:
                self._workers.stop(at_once=True)
                raise RuntimeError(
                    f"the workers of a DataLoader returned no batch within {self._timeout:g} s: the timeout "
                    "is too short, or the data set is blocked. Pass a longer timeout, or 0 for no limit"
                )
            for answer in self._workers.receive(left):
                self._answers[answer.order] = answer


def _error_of(failure: Failure, where: str) -> BaseException:
    """Return the error that a worker had, with the worker's traceback as a note."""
    error: object = None
    if failure.pickled is not None:
        with suppress(Exception):
            error = pickle.loads(failure.pickled)
    # StopIteration would end the loop silently.
    if not isinstance(error, Exception) or isinstance(error, StopIteration):
        error = RuntimeError(f"{failure.kind} in {where} of a DataLoader")
    error.add_note(f"In {where} of a DataLoader:\n\n{failure.text}")
    return error


def _death_message(worker: int, pid: int | None, code: int | None) -> str:
    how = f"with exit code {code}"
    if code is not None and code < 0:
        how = f"by signal {-code}"
        with suppress(ValueError):
            how = f"by {signal.Signals(-code).name}"
    hint = "Its last output, if any, is in the standard error of the program"
    if how.endswith("SIGKILL"):
        hint = "The system kills processes if memory runs out: use fewer workers or smaller batches"
    elif how.endswith("SIGBUS"):
        hint = "Shared memory is full: increase it (docker run --shm-size), or use fewer workers"
    return (
        f"worker {worker} (process {pid}) of a DataLoader ended unexpectedly, {how}. {hint}. To find the "
        "cause, pass num_workers=0: the data set then runs in this process"
    )
