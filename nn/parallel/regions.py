"""Memory that the workers of one machine share, in a file that loses its name as soon as all have mapped it.

So nothing is left behind, also by workers that are killed: the system frees the memory with its last mapping.
Each worker also holds a lock on one byte of the file, which the system releases when the process ends: that
is how the others know that it has.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import finalize

import numpy as np

from nn.parallel import byte_locks
from nn.parallel.errors import ExchangeTimeoutError, WorkerLostError, late_error
from nn.parallel.flags import Flags
from tensor.lowlevel import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.lowlevel import Array, Dtype

#: Before the name of each file: what is left where all workers were killed while they mapped it.
PREFIX: Final = "disposescope-exchange-"
# Parts start at cache lines of their own.
_LINE = 64
# While a worker waits it looks this often whether the others are there still, in seconds.
_LOOK = 0.1
# What a worker says of itself in each region.
_HERE, _LEFT = 1, 2


def folder() -> Path:
    """Return where files in memory are: of the system, or of temporary files where it has none."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


def remove(token: str) -> None:
    """Remove files whose names begin with `token`: those of a job that is over."""
    for path in folder().glob(f"{PREFIX}{token}*"):
        path.unlink(missing_ok=True)


def remove_left_behind() -> None:
    """Remove the files whose makers are gone, of any job: each maker holds a lock on the first byte."""
    for path in folder().glob(f"{PREFIX}*"):
        try:
            file = os.open(path, os.O_RDWR)
        except (FileNotFoundError, PermissionError):  # mapped by all meanwhile; somebody else's
            continue
        try:
            if byte_locks.try_lock(file, 0):
                path.unlink(missing_ok=True)
        finally:
            os.close(file)


class Layout:
    """Where the parts of a region begin; laid out in the same order by each worker."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> int:
        """Return where a part of `nbytes` begins."""
        begin = self.nbytes
        self.nbytes += -(-nbytes // _LINE) * _LINE
        return begin


class Region:
    """Zeroed memory that `count` workers have mapped; they call this together, with the same arguments.

    Parameters
    ----------
    name
        Of the file, known to these workers alone.
    place
        Which of them this one is, from 0.
    count
        How many there are.
    layout
        What will be in it.
    timeout
        How long to wait for the others, in seconds.
    ranks
        Their ranks in the job, by which errors name them.
    known
        An earlier region of the same workers, which tells who of them has ended before coming to this one.

    Raises
    ------
    ExchangeTimeoutError
        If not all of them come in time.
    WorkerLostError
        If one ends before all have come.
    OSError
        If there is not so much shared memory.
    NotImplementedError
        If there are several workers, and the system has no locks on bytes of a file, as Windows.
    """

    def __init__(
        self,
        name: str,
        place: int,
        count: int,
        layout: Layout,
        timeout: float,
        ranks: Sequence[int],
        known: Region | None = None,
    ) -> None:
        self.place = place
        self.count = count
        self._ranks = ranks
        self._known = known
        self.timeout = timeout
        self._here = -(-count * 8 // _LINE) * _LINE
        nbytes = self._here + layout.nbytes
        self._file = -1
        if count == 1:
            self._memory = mmap.mmap(-1, nbytes)
            self.flags = Flags(self._memory)
            return
        byte_locks.require()
        path = folder() / (PREFIX + name)
        file = self._file = _make(path, nbytes) if place == 0 else self._open(path)
        # Also when the last reference goes, with the model that it is for.
        self._closing = finalize(self, os.close, file)
        try:
            self._memory = mmap.mmap(file, nbytes)
            self.flags = Flags(self._memory)
            if place != 0:
                byte_locks.lock(file, place)
            self.flags.set(place, _HERE)
            if place == 0:
                self._wait_for_others()
        except BaseException:
            self._file = -1
            self._closing()
            raise
        finally:
            if place == 0:
                path.unlink(missing_ok=True)

    def _wait_for_others(self) -> None:
        try:
            self.wait(0, 1, "to map their shared memory")
        except BaseException:
            # Who waits for this worker shall blame the one that did not come.
            self.flags.set(self.place, _LEFT)
            raise

    def flags_at(self, begin: int) -> int:
        """Return the number of the flag at `begin`."""
        return (self._here + begin) // 8

    def array_at(self, begin: int, dtype: Dtype, count: int) -> Array:
        """Return `count` elements from `begin` on, as an array that holds the memory."""
        return np.frombuffer(self._memory, dtype, count, self._here + begin)

    def wait(
        self,
        first: int,
        value: int,
        what: str,
        *,
        at_half: Callable[[], None] | None = None,
        names: Callable[[], str] | None = None,
    ) -> float:
        """Wait until the flags of all workers, from `first` on, are `value` or more; return the seconds.

        `at_half` is called once when half of the timeout is over, `names` at its end for who is late; else
        those are whose flags are missing.

        Raises
        ------
        ExchangeTimeoutError, WorkerLostError
            If a worker does not come: it is named, with `what` it was waited for to do.
        """
        flags, count = self.flags, self.count
        if flags.wait(first, count, value, 0) < 0:
            return 0.0
        begin = time.monotonic()
        while True:
            late = flags.wait(first, count, value, min(_LOOK, self.timeout / 4))
            waited = time.monotonic() - begin
            if late < 0:
                return waited
            if at_half is not None and waited > self.timeout / 2:
                at_half()
                at_half = None
            # In this order: who has ended sets no flag afterwards, and nobody is late who came while this
            # thread was stopped.
            ended = [i for i in range(count) if self.has_ended(i)]
            missing = [i for i in range(count) if flags.wait(first + i, 1, value, 0) >= 0]
            gone = [i for i in ended if i in missing]
            if gone:
                raise self._lost(gone, what)
            if missing and waited > self.timeout:
                here = f"worker {', '.join([str(self._ranks[i]) for i in missing])}"
                raise late_error(waited, here if names is None else names(), what)

    def has_ended(self, place: int) -> bool:
        """Tell whether the process of a worker has exited, or has left after it arrived here."""
        if place == self.place or self._file < 0:
            return False
        if self._known is not None and self._known.has_ended(place):
            return True
        # Worker 0 has its lock before the file has its name.
        if place > 0 and self.flags.get(place) == 0:
            return False
        # A shared lock: others who look at the same time have one too, and are not taken for the worker.
        if not byte_locks.try_lock(self._file, place, shared=True):
            return False
        byte_locks.unlock(self._file, place)
        return True

    def close(self) -> None:
        """Let go of the lock by which the others know of this worker; memory goes with its last array."""
        if self._file >= 0:
            self._file = -1
            self.flags.set(self.place, _LEFT)
            self._closing()

    def _open(self, path: Path) -> int:
        end = time.monotonic() + self.timeout
        look = 0.0
        while True:
            now = time.monotonic()  # before the look: this thread may be stopped after it
            try:
                return os.open(path, os.O_RDWR)
            except FileNotFoundError:
                if now > end:
                    raise ExchangeTimeoutError(
                        f"waited {self.timeout:.1f} s for worker {self._ranks[0]} to make shared memory: it "
                        "has failed, or makes other calls of parallel.prepare() than this worker"
                    ) from None
                if now > look and self._known is not None:
                    if self._known.has_ended(0):
                        gone = [i for i in range(self.count) if self._known.has_ended(i)]
                        raise self._known._lost(gone, "to make shared memory") from None
                    look = now + _LOOK
                time.sleep(0.001)

    def _lost(self, gone: Sequence[int], what: str) -> WorkerLostError:
        # Those that have left may have done so because another was killed.
        first = [i for i in gone if not self._has_left(i)] or gone
        ranks = ", ".join([str(self._ranks[i]) for i in first])
        return WorkerLostError(
            f"worker {ranks} has ended or was killed while the others waited for it {what}. Last figures are "
            "in parallel.statistics()"
        )

    def _has_left(self, place: int) -> bool:
        return self.flags.get(place) == _LEFT or (self._known is not None and self._known._has_left(place))


def _make(path: Path, nbytes: int) -> int:
    """Make a file of zeros, under its name only when it is whole and locked, and return it open."""
    new = path.with_name(path.name + ".new")
    while True:
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Waits where somebody looks whether the file was left behind, and goes away if so.
            byte_locks.lock(file, 0)
            os.ftruncate(file, nbytes)
            if hasattr(os, "posix_fallocate"):  # else the first write into memory that is not there kills
                os.posix_fallocate(file, 0, nbytes)
            new.rename(path)
        except FileNotFoundError:  # taken for one that was left behind, before it was locked
            os.close(file)
        except BaseException as error:
            os.close(file)
            new.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise OSError(
                    errno.ENOSPC,
                    f"the exchange needs {nbytes:,} bytes in {shown(str(path.parent))}, and there are fewer: "
                    "start the container with more, such as docker run --shm-size=4g",
                ) from None
            raise
        else:
            return file
