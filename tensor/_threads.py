"""Large work on several threads: ``in_pieces`` runs a function over ranges, here and on workers.

NumPy lets go of the interpreter while it computes on a large array, so threads compute at the same time. Who
asked works too: caller and workers take piece after piece, and whoever comes late does less. The caller
never waits for a worker that has not begun: it calls that one off.
"""

from __future__ import annotations

import os
import warnings
from _queue import SimpleQueue
from _thread import allocate_lock, start_new_thread
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Measured were two cores. Memory has little more to give to many threads, and each takes its turn at the
# interpreter between two pieces.
_AT_MOST = 8


class Threads:
    """How many threads work, and the workers among them."""

    __slots__ = ("count", "hiring", "queue", "workers")

    def __init__(self) -> None:
        self.count = _default_count()
        self.start_anew()

    def start_anew(self) -> None:
        """Forget the workers: a forked child has none."""
        self.workers = 0
        self.hiring = allocate_lock()
        self.queue: SimpleQueue[_Share] = SimpleQueue()

    def hire(self) -> None:
        """Start the workers that are missing, as far as the system lets us."""
        with self.hiring:
            while self.workers < self.count - 1:
                try:
                    start_new_thread(_work, (self.queue,))
                except RuntimeError:
                    return  # a limit of the system, or the interpreter shuts down
                self.workers += 1


class _Job:
    """A function, the pieces that nobody has taken yet, and what went wrong."""

    __slots__ = ("error", "handling", "reports", "run", "size", "starts", "step")

    def __init__(
        self, run: Callable[[int, int], object], size: int, step: int, handling: dict[str, Any]
    ) -> None:
        self.run = run
        self.size = size
        self.step = step
        self.starts: Iterator[int] = iter(range(0, size, step))
        self.handling = handling
        self.reports = _Reports()
        self.error: BaseException | None = None

    def work(self) -> None:
        """Do pieces until none is left."""
        run, size, step = self.run, self.size, self.step
        with np.errstate(call=self.reports, **self.handling):
            for start in self.starts:
                end = start + step
                run(start, end if end < size else size)

    def call_off(self) -> None:
        """Leave the pieces undone that nobody has taken."""
        for _ in self.starts:
            pass


class _Reports(dict[str, None]):
    """What NumPy has to say of floating-point numbers, once each, in the form of its logs."""

    __slots__ = ()

    def write(self, text: str) -> None:
        self[text] = None


class _Share:
    """What one worker is asked to do. Whoever locks `claim` first does it, or calls it off."""

    __slots__ = ("claim", "done", "job")

    def __init__(self, job: _Job) -> None:
        self.job = job
        self.claim = allocate_lock()
        self.done = allocate_lock()
        self.done.acquire()

    def work(self) -> None:
        """Do the share, as a worker; nobody sees the job's arrays any more when it is done."""
        job = self.job
        try:
            job.work()
        except BaseException as error:  # noqa: BLE001  # the caller raises it
            # Without its frames, which hold arrays.
            job.error = error.with_traceback(None)
            job.call_off()
        finally:
            self.done.release()

    def finish(self) -> None:
        """Call the share off, or wait until it is done, whatever interrupts."""
        if self.claim.acquire(False):
            return
        interrupt = None
        while True:
            try:
                self.done.acquire()
                break
            except BaseException as error:  # noqa: BLE001  # by a signal's handler; raised below
                interrupt = error
        if interrupt is not None:
            raise interrupt


def _work(queue: SimpleQueue[_Share]) -> None:
    while True:
        share = queue.get()
        if share.claim.acquire(False):
            share.work()
        del share


def in_pieces(run: Callable[[int, int], object], size: int, step: int) -> None:
    """Call ``run(start, end)`` for all of ``range(size)`` in pieces of `step`, on several threads at once.

    In which order, and by whom, is open; when this returns, or raises, nobody runs any more. What NumPy has
    to say of floating-point numbers (``np.errstate``) the caller hears, once, when all is done. An error of
    one piece leaves others undone. `run` computes on plain arrays, and no piece waits for another.

    Examples
    --------
    >>> import numpy as np
    >>> from tensor.kernels import in_pieces
    >>> x, y = np.arange(6.0), np.empty(6)
    >>> in_pieces(lambda start, end: np.sqrt(x[start:end], out=y[start:end]), 6, 2)
    >>> bool(np.all(y == np.sqrt(x)))
    True
    """
    errors = np.geterr()
    if not _REPORTED.issuperset(errors.values()):
        # To functions and logs of the user's NumPy speaks itself.
        for start in range(0, size, step):
            run(start, min(start + step, size))
        return
    handling = {kind: "ignore" if how == "ignore" else "log" for kind, how in errors.items()}
    job = _Job(run, size, step, handling)
    shares = [_Share(job) for _ in range(min(threads.count, -(-size // step)) - 1)]
    if shares:
        if threads.workers < threads.count - 1:
            threads.hire()
        queue = threads.queue
        for share in shares:
            queue.put(share)
    try:
        job.work()
    finally:
        job.call_off()
        for share in shares:
            share.finish()
        del job.run  # the share of a worker that comes yet holds no arrays
    if job.error is not None:
        raise job.error
    if job.reports:
        _report(job.reports, errors)


_REPORTED = frozenset({"ignore", "warn", "raise"})
# NumPy's words, in the order in which it looks.
_KINDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}


def _report(reports: _Reports, errors: Any) -> None:
    """Warn or raise as NumPy does after one call."""
    found = [text.removeprefix("Warning: ").rstrip() for text in reports]
    for words, kind in _KINDS.items():
        for text in found:
            if text.startswith(words):
                if errors[kind] == "raise":
                    raise FloatingPointError(text)
                warnings.warn(text, RuntimeWarning, stacklevel=3)


def set_num_threads(n: int) -> None:
    """Let `n` threads compute on large arrays; 1 leaves all to the thread that asks.

    The libraries below NumPy (BLAS) have threads and settings of their own.

    Examples
    --------
    >>> import tensor
    >>> before = tensor.get_num_threads()
    >>> tensor.set_num_threads(1)
    >>> tensor.get_num_threads()
    1
    >>> tensor.set_num_threads(before)
    """
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_num_threads takes an int, not {type(n).__name__}")
    if n < 1:
        raise ValueError(f"set_num_threads: at least 1 thread computes, not {n}: write 1 for no other")
    threads.count = n


def get_num_threads() -> int:
    """Return how many threads compute on large arrays.

    At first as many as the process may use cores, at most 8, or the number in the environment variable
    ``OMP_NUM_THREADS``.

    Examples
    --------
    >>> import tensor
    >>> tensor.get_num_threads() >= 1
    True
    """
    return threads.count


def _default_count() -> int:
    wanted = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        usable = os.cpu_count() or 1
    return min(usable, _AT_MOST)


threads = Threads()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=threads.start_anew)
