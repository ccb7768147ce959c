"""Memory that the workers of one machine share, in a file that loses its name as soon as all have mapped it.

So nothing is left behind, also by workers that are killed: the system frees the memory with its last mapping.
Each worker also holds a lock on one byte of the file, which the system releases when the process ends: that
is how the others know that it has.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from nn.parallel.errors import ExchangeTimeoutError, WorkerLostError
from nn.parallel.flags import Flags
from tensor.lowlevel import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.lowlevel import Array, Dtype

#: Before the name of each file: what is left where all workers were killed while they mapped it.
PREFIX: Final = "disposescope-"
# Parts start at cache lines of their own.
_LINE = 64
# While a worker waits it looks this often whether the others are there still, in seconds.
_LOOK = 0.1


def folder() -> Path:
    """Return where files in memory are: of the system, or of temporary files where it has none."""
    shared = Path("/dev/shm")
    return shared if shared.is_dir() else Path(tempfile.gettempdir())


def remove_left_behind(token: str, but: str | None = None) -> None:
    """Remove files whose names begin with `token`, but for those that begin with `but`."""
    for path in folder().glob(f"{PREFIX}{token}*"):
        if but is None or not path.name.startswith(PREFIX + but):
            path.unlink(missing_ok=True)


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

    Raises
    ------
    ExchangeTimeoutError
        If not all of them come in time.
    WorkerLostError
        If one ends before all have come.
    OSError
        If there is not so much shared memory.
    """

    def __init__(
        self, name: str, place: int, count: int, layout: Layout, timeout: float, ranks: Sequence[int]
    ) -> None:
        self.place = place
        self.count = count
        self._ranks = ranks
        self.timeout = timeout
        self._here = -(-count * 8 // _LINE) * _LINE
        nbytes = self._here + layout.nbytes
        self._file = -1
        path = folder() / (PREFIX + name)
        if count > 1:
            self._file = _make(path, nbytes) if place == 0 else _open(path, timeout, ranks[0])
        try:
            self._memory = mmap.mmap(self._file, nbytes)
            self.flags = Flags(self._memory)
            if count > 1:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                self.flags.set(place, 1)
                if place == 0:
                    self.wait(0, 1, "to map their shared memory")
        finally:
            if count > 1 and place == 0:
                path.unlink(missing_ok=True)

    def flags_at(self, begin: int) -> int:
        """Return the number of the flag at `begin`."""
        return (self._here + begin) // 8

    def array_at(self, begin: int, dtype: Dtype, count: int) -> Array:
        """Return `count` elements from `begin` on, as an array that holds the memory."""
        return np.frombuffer(self._memory, dtype, count, self._here + begin)

    def wait(self, first: int, value: int, what: str) -> float:
        """Wait until the flags of all workers, from `first` on, are `value` or more; return the seconds.

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
            late = flags.wait(first, count, value, _LOOK)
            waited = time.monotonic() - begin
            if late < 0:
                return waited
            place = late - first
            if self.has_ended(place) and flags.wait(late, 1, value, 0) >= 0:
                raise WorkerLostError(
                    f"worker {self._ranks[place]} has ended or was killed while the others waited for it "
                    f"{what}. Its last figures are in parallel.statistics()"
                )
            if waited > self.timeout:
                missing = [self._ranks[i] for i in range(count) if flags.wait(first + i, 1, value, 0) >= 0]
                raise ExchangeTimeoutError(
                    f"waited {waited:.1f} s for worker {', '.join(map(str, missing))} {what}. All workers "
                    "must make the same number of steps. If steps are that slow, give "
                    "parallel.Trainer(..., timeout=...) more seconds"
                )

    def has_ended(self, place: int) -> bool:
        """Tell whether the process of a worker that has come here is no more, or has left."""
        if place == self.place or self._file < 0 or self.flags.get(place) == 0:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except OSError as error:
            if error.errno in {errno.EACCES, errno.EAGAIN}:
                return False
            raise
        fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)
        return True

    def close(self) -> None:
        """Let go of the lock by which the others know of this worker; memory goes with its last array."""
        file, self._file = self._file, -1
        if file >= 0:
            os.close(file)


def _make(path: Path, nbytes: int) -> int:
    """Make a file of zeros, under its name only when it is whole, and return it open."""
    new = path.with_name(path.name + ".new")
    file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(file, nbytes)
        if hasattr(
            os, "posix_fallocate"
        ):  # else the first write into memory that is not there ends the process
            os.posix_fallocate(file, 0, nbytes)
        new.rename(path)
    except BaseException as error:
        os.close(file)
        new.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise OSError(
                errno.ENOSPC,
                f"the exchange needs {nbytes:,} bytes in {shown(str(path.parent))}, and there are fewer: "
                "start the "
                "container with more, such as docker run --shm-size=4g",
            ) from None
        raise
    return file


def _open(path: Path, timeout: float, rank: int) -> int:
    end = time.monotonic() + timeout
    while True:
        try:
            return os.open(path, os.O_RDWR)
        except FileNotFoundError:
            if time.monotonic() > end:
                raise ExchangeTimeoutError(
                    f"waited {timeout:.1f} s for worker {rank} to make shared memory: it has failed, or "
                    "makes other calls of parallel.prepare() than this worker"
                ) from None
            time.sleep(0.001)
