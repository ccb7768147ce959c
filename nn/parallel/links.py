"""Sums over several machines with gloo, through Ray, on a separate thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any

from nn.parallel.errors import ExchangeTimeoutError, WorkerLostError, require
from tensor._dtypes import Array


class Link:
    """The connection of the first worker of this machine with the first workers of the other machines.

    Parameters
    ----------
    name
        A name that only this group of workers uses.
    node_rank
        The number of this machine, from 0.
    node_count
        The number of machines.
    timeout
        How long to wait for the other machines to connect, in seconds.

    Raises
    ------
    ModuleNotFoundError
        If gloo is missing, which PyTorch provides.
    ExchangeTimeoutError, WorkerLostError
        If the other machines do not connect.
    """

    def __init__(self, name: str, node_rank: int, node_count: int, timeout: float) -> None:
        self._collective = require("ray.util.collective")
        if not self._collective.gloo_available():
            raise ModuleNotFoundError(
                f"a job on {node_count} machines requires gloo, which is a part of PyTorch: run pip install "
                "torch on each machine",
                name="torch",
            )
        self._name = name
        self._tasks: SimpleQueue[tuple[Callable[[], None], Future[None]] | None] = SimpleQueue()
        # A daemon, so that the process can exit: a sum blocks forever if another machine is gone.
        self._thread = Thread(
            target=_work, args=(self._tasks,), name="gradients between machines", daemon=True
        )
        self._thread.start()
        # Also connect on the thread: connecting blocks forever if another machine is gone.
        connected = self.submit(
            lambda: self._collective.init_collective_group(
                node_count, node_rank, "gloo", name, gloo_timeout=round(timeout * 1000)
            )
        )
        try:
            connected.result(timeout)
        except TimeoutError as error:
            raise ExchangeTimeoutError(
                f"waited {timeout:.1f} s for the workers of the other machines to connect: one has failed, "
                "or the network does not work"
            ) from error
        except RuntimeError as error:
            raise _lost(error) from error

    def submit(self, function: Callable[[], None]) -> Future[None]:
        """Run `function` on the link's thread, after the functions submitted before."""
        task: Future[None] = Future()
        self._tasks.put((function, task))
        return task

    def sum(self, array: Array) -> None:
        """Set `array` to the sum over all machines, bit-identical on each. Call this on the link's thread.

        Raises
        ------
        WorkerLostError
            If a connection breaks.
        """
        try:
            self._collective.allreduce(array, self._name)
        except RuntimeError as error:
            raise _lost(error) from error

    def barrier(self) -> None:
        """Wait for all machines. Call this on the link's thread. It raises the errors of `sum`."""
        try:
            self._collective.barrier(self._name)
        except RuntimeError as error:
            raise _lost(error) from error

    def close(self) -> None:
        """End the thread after the submitted functions. The connections close when the process ends."""
        self._tasks.put(None)


def _lost(error: RuntimeError) -> WorkerLostError:
    return WorkerLostError(
        "a worker on another machine has ended or was killed, or the network does not work. The error of "
        f"gloo is {str(error)[:300]!r}. parallel.statistics() returns the last figures"
    )


def _work(tasks: SimpleQueue[Any]) -> None:
    while (task := tasks.get()) is not None:
        function, future = task
        try:
            function()
        except BaseException as error:  # noqa: BLE001  # raised by the future's `result()`
            future.set_exception(error)
        else:
            future.set_result(None)
        del task, function, future
