"""Large work on several threads: ``in_pieces`` runs a function over ranges, here and on workers.

NumPy lets go of the interpreter while it computes on a large array, so threads compute at the same time. Who
asked works too: caller and workers take piece after piece, and one that comes late does less. The caller
never waits for a worker that has not begun: it calls that one off.
"""

from __future__ import annotations

import os
from _queue import SimpleQueue
from _thread import allocate_lock, start_new_thread
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels.context import in_kernels
from tensor.kernels.threads import get_num_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Threads:
    """How many threads work, and the workers among them."""

    __slots__ = ("queue", "starting", "workers")

    def __init__(self) -> None:
        self.start_anew()

    @property
    def count(self) -> int:
        return get_num_threads()

    def start_anew(self) -> None:
        """Forget the workers: a forked child has none."""
        self.workers: list[_Worker] = []
        self.starting = allocate_lock()
        self.queue: SimpleQueue[_Share | None] = SimpleQueue()

    def start(self) -> None:
        """Start the workers that are missing, as far as the system lets us."""
        with self.starting:
            while len(self.workers) < self.count - 1:
                worker = _Worker(self.queue)
                try:
                    start_new_thread(worker.live, ())
                except RuntimeError:
                    return  # a limit of the system, or the interpreter shuts down
                self.workers.append(worker)

    def stop(self) -> None:
        """Let the workers end, before a fork: Python warns of forks while threads run."""
        with self.starting:
            queue, gone = self.queue, self.workers
            self.queue, self.workers = SimpleQueue(), []
        for _ in gone:
            queue.put(None)
        for worker in gone:
            worker.ended.acquire(timeout=0.05)  # who is busy ends later


class _Share:
    """What one worker is asked to do. Whoever enters itself in `owner` first does it, or calls it off."""

    __slots__ = ("done", "error", "is_done", "owner", "run", "size", "starts", "step")

    def __init__(
        self, run: Callable[[int, int], object], starts: Iterator[int], size: int, step: int
    ) -> None:
        self.run: Callable[[int, int], object] | None = run
        self.starts = starts
        self.size = size
        self.step = step
        # A dict, for its setdefault: one step, and again the same answer when it is asked again.
        self.owner: dict[None, _Worker | None] = {}
        self.done = allocate_lock()
        self.done.acquire()
        self.is_done = False
        self.error: BaseException | None = None

    def finish(self) -> None:
        """Call the share off, or wait until it is done; to be called again where that is interrupted."""
        worker = self.owner.setdefault(None, None)
        if worker is not None:
            worker.watch(self.done)
            while not self.is_done:
                self.done.acquire()
        self.run = None  # a worker that comes yet shall hold no arrays


class _Worker:
    """One thread, and the sign by which others see that it rests."""

    __slots__ = ("ended", "queue", "sign", "view")

    def __init__(self, queue: SimpleQueue[_Share | None]) -> None:
        self.queue = queue
        self.ended = allocate_lock()
        self.ended.acquire()
        # The first byte is 0 while the worker rests; all others are there to be looked over.
        self.sign = bytearray(b"\1") * 2**14
        self.view = np.broadcast_to(np.frombuffer(self.sign, np.bool_), (40, 2**14))

    def live(self) -> None:
        """Do share after share."""
        queue, sign = self.queue, self.sign
        with np.errstate(all="ignore"):
            while True:
                sign[0] = 0
                share = queue.get()
                if share is None:
                    break
                if share.owner.setdefault(None, self) is self:
                    sign[0] = 1
                    try:
                        _do(share.run, share.starts, share.size, share.step)
                    except BaseException as error:  # noqa: BLE001  # the caller raises it
                        # Without its frames, which hold arrays.
                        share.error = error.with_traceback(None)
                    share.is_done = True
                    share.done.release()
                del share
        self.ended.release()

    def watch(self, done: Any) -> None:
        """Wait for `done` to be unlocked, for some 100 us, awake and with the interpreter let go.

        A thread that sleeps is back 30 us after it could be. To stay awake without the interpreter, NumPy
        looks for the sign, again and again: an addition of 1,000,000 elements takes 109 us for 140.
        """
        for _ in range(10):
            if not done.locked():
                return
            _all(self.view, None)


_all = np.logical_and.reduce


def _do(run: Any, starts: Iterator[int], size: int, step: int) -> None:
    """Do pieces until none is left; after an error nobody begins another."""
    try:
        for start in starts:
            end = start + step
            run(start, end if end < size else size)
    except BaseException:
        _use_up(starts)
        raise


def _use_up(starts: Iterator[int]) -> None:
    for _ in starts:
        pass


def in_pieces(run: Callable[[int, int], object], size: int, step: int) -> None:
    """Call ``run(start, end)`` for all of ``range(size)`` in pieces of `step`, on several threads at once.

    In which order, and by whom, is open; when this returns, or raises, nobody runs any more. NumPy says
    nothing of overflow or division by zero. An error of one piece leaves others undone. `run` computes on
    plain arrays, and no piece waits for another.

    Examples
    --------
    >>> import numpy as np
    >>> from tensor.kernels import in_pieces
    >>> x, y = np.arange(6.0), np.empty(6)
    >>> in_pieces(lambda start, end: np.sqrt(x[start:end], out=y[start:end]), 6, 2)
    >>> bool(np.all(y == np.sqrt(x)))
    True
    """
    with in_kernels():
        _in_pieces(run, size, step)


def _in_pieces(run: Callable[[int, int], object], size: int, step: int) -> None:
    starts = iter(range(0, size, step))
    helpers = min(threads.count, -(-size // step)) - 1
    if helpers < 1:
        _do(run, starts, size, step)
        return
    if len(threads.workers) < threads.count - 1:
        threads.start()
    shares = [_Share(run, starts, size, step) for _ in range(helpers)]
    try:
        for share in shares:
            threads.queue.put(share)
        _do(run, starts, size, step)
    finally:
        # Whatever interrupts, nobody computes when this ends. (An interrupt is the exception of a signal's
        # handler, and may come after any call.)
        interrupt = None
        while True:
            try:
                _use_up(starts)
                for share in shares:
                    share.finish()
                break
            except BaseException as error:  # noqa: BLE001  # raised below
                interrupt = error
        if interrupt is not None:
            raise interrupt
    for share in shares:
        if share.error is not None:
            raise share.error


threads = Threads()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=threads.stop, after_in_child=threads.start_anew)
