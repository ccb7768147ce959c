"""Shared memory of one machine's workers.

The memory is a file, which is unlinked as soon as all workers have mapped it. So the system frees the memory
with the last mapping, even if workers are killed. Each worker also holds a lock on one byte of the file. The
system releases the lock when the process ends, so the other workers can detect the end.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from weakref import finalize

import numpy as np

from nn.parallel import byte_locks
from nn.parallel.errors import ExchangeTimeoutError, WorkerLostError, late_error
from nn.parallel.flags import Flags
from tensor._dtypes import Array, Dtype
from tensor._errors import shown

#: The prefix of each file's name. A file remains if all workers are killed while they map it.
PREFIX: Final = "disposescope-exchange-"
# Each part starts at a new cache line.
_LINE = 64
# How often a waiting worker checks that the other workers are alive, in seconds.
_CHECK_INTERVAL = 0.1
# The state of a worker in each region.
_HERE, _LEFT = 1, 2


def folder() -> Path:
    """Return the folder of files in memory, or of temporary files if the system has none."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


def remove(token: str) -> None:
    """Remove the files of a job that has ended: their names begin with `token`."""
    for path in folder().glob(f"{PREFIX}{token}*"):
        path.unlink(missing_ok=True)


def remove_left_behind() -> None:
    """Remove files whose creators have ended: a creator holds a lock on the first byte."""
    for path in folder().glob(f"{PREFIX}*"):
        try:
            file = os.open(path, os.O_RDWR)
        except (FileNotFoundError, PermissionError):  # unlinked meanwhile, or another user's file
            continue
        try:
            if byte_locks.try_lock(file, 0):
                path.unlink(missing_ok=True)
        finally:
            os.close(file)


class Layout:
    """Offsets of the parts of a region. Each worker must add the same parts in the same order."""

    def __init__(self) -> None:
        self.nbytes = 0

    def add(self, nbytes: int) -> int:
        """Reserve a part of `nbytes`, and return its offset."""
        begin = self.nbytes
        self.nbytes += -(-nbytes // _LINE) * _LINE
        return begin


class Region:
    """Zeroed memory that `count` workers map. They create it together, with equal arguments except `place`.

    Parameters
    ----------
    name
        The name of the file, which only these workers know.
    place
        The number of this worker among the `count` workers, from 0.
    count
        The number of workers.
    layout
        The parts of the memory.
    timeout
        How long to wait for the other workers, in seconds.
    ranks
        The workers' ranks in the job, for error messages.
    known
        An earlier region of the same workers, to detect workers that end before they map this one.

    Raises
    ------
    ExchangeTimeoutError
        If a worker does not create the region in time.
    WorkerLostError
        If a worker ends before all have created it.
    OSError
        If there is too little shared memory.
    NotImplementedError
        If there are several workers and the system has no byte locks, such as Windows.
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
        self._parts_begin = -(-count * 8 // _LINE) * _LINE
        nbytes = self._parts_begin + layout.nbytes
        self._file = -1
        if count == 1:
            self._memory = mmap.mmap(-1, nbytes)
            self.flags = Flags(self._memory)
            return
        byte_locks.require_locks()
        path = folder() / (PREFIX + name)
        file = self._file = _make(path, nbytes) if place == 0 else self._open(path)
        # Also close the file when this object is freed together with its model.
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
            # Report that this worker left: then errors of others name a killed worker instead of this one.
            self.flags.set(self.place, _LEFT)
            raise

    def flags_at(self, begin: int) -> int:
        """Return the index in `flags` of the part at the offset `begin`."""
        return (self._parts_begin + begin) // 8

    def array_at(self, begin: int, dtype: Dtype, count: int) -> Array:
        """Return `count` elements from the offset `begin`, as an array that keeps the memory alive."""
        return np.frombuffer(self._memory, dtype, count, self._parts_begin + begin)

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

        `at_half` is called once after half of the timeout. `names` returns the late workers for the error
        after the timeout. By default these are the workers whose flags are below `value`.

        Raises
        ------
        ExchangeTimeoutError, WorkerLostError
            If a worker does not arrive. The error names it, and `what` it should have done.
        """
        flags, count = self.flags, self.count
        if flags.wait(first, count, value, 0) < 0:
            return 0.0
        begin = time.monotonic()
        while True:
            late = flags.wait(first, count, value, min(_CHECK_INTERVAL, self.timeout / 4))
            waited = time.monotonic() - begin
            if late < 0:
                return waited
            if at_half is not None and waited > self.timeout / 2:
                at_half()
                at_half = None
            # Read the flags after the check of processes: a worker that set its flag and then ended is not
            # lost. One that set its flag while this thread was suspended is not late.
            ended = [i for i in range(count) if self.has_ended(i)]
            missing = [i for i in range(count) if flags.wait(first + i, 1, value, 0) >= 0]
            gone = [i for i in ended if i in missing]
            if gone:
                raise self._lost(gone, what)
            if missing and waited > self.timeout:
                late_workers = f"worker {', '.join([str(self._ranks[i]) for i in missing])}"
                raise late_error(waited, late_workers if names is None else names(), what)

    def has_ended(self, place: int) -> bool:
        """Return whether the process of a worker has exited, or has left this region."""
        if place == self.place or self._file < 0:
            return False
        if self._known is not None and self._known.has_ended(place):
            return True
        # A worker locks its byte before it sets its flag. Worker 0 locks its byte before other workers can
        # open the file.
        if place > 0 and self.flags.get(place) == 0:
            return False
        # Use a shared lock, because several workers may check at the same time: their locks do not conflict.
        if not byte_locks.try_lock(self._file, place, shared=True):
            return False
        byte_locks.unlock(self._file, place)
        return True

    def close(self) -> None:
        """Release the lock that shows this worker as alive. The memory is freed with its last array."""
        if self._file >= 0:
            self._file = -1
            self.flags.set(self.place, _LEFT)
            self._closing()

    def _open(self, path: Path) -> int:
        end = time.monotonic() + self.timeout
        next_check = 0.0
        while True:
            now = time.monotonic()  # before the check: this thread may be suspended after it
            try:
                return os.open(path, os.O_RDWR)
            except FileNotFoundError:
                if now > end:
                    raise ExchangeTimeoutError(
                        f"waited {self.timeout:.1f} s for worker {self._ranks[0]} to create shared memory: "
                        "it has failed, or its calls of parallel.prepare() differ from those of this worker"
                    ) from None
                if now > next_check and self._known is not None:
                    if self._known.has_ended(0):
                        gone = [i for i in range(self.count) if self._known.has_ended(i)]
                        raise self._known._lost(gone, "to create shared memory") from None
                    next_check = now + _CHECK_INTERVAL
                time.sleep(0.001)

    def _lost(self, gone: Sequence[int], what: str) -> WorkerLostError:
        # Name killed workers first: others may have left because one was killed.
        first = [i for i in gone if not self._has_left(i)] or gone
        ranks = ", ".join([str(self._ranks[i]) for i in first])
        return WorkerLostError(
            f"worker {ranks} has ended or was killed while the others waited for it {what}. "
            "parallel.statistics() returns the last figures"
        )

    def _has_left(self, place: int) -> bool:
        return self.flags.get(place) == _LEFT or (self._known is not None and self._known._has_left(place))


def _make(path: Path, nbytes: int) -> int:
    """Create a file of zeros and return it open. It gets its name when it is complete and locked."""
    new = path.with_name(path.name + ".new")
    while True:
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # Another process may lock the file for a moment, to check whether it is stale, and remove it.
            byte_locks.lock(file, 0)
            os.ftruncate(file, nbytes)
            if hasattr(os, "posix_fallocate"):  # else a write beyond free memory would kill the process
                os.posix_fallocate(file, 0, nbytes)
            new.rename(path)
        except FileNotFoundError:  # removed as stale before it was locked
            os.close(file)
        except BaseException as error:
            os.close(file)
            new.unlink(missing_ok=True)
            if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                raise OSError(
                    errno.ENOSPC,
                    f"the exchange of gradients requires {nbytes:,} bytes in {shown(str(path.parent))}, but "
                    "fewer are free: start the container with more, such as docker run --shm-size=4g",
                ) from None
            raise
        else:
            return file
