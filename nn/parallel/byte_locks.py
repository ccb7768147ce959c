"""Locks on single bytes of a file. The system releases a lock when its process ends or is killed."""

from __future__ import annotations

import errno
from typing import Any


def require_locks() -> None:
    """Raise an error unless the system has locks on single bytes.

    Raises
    ------
    NotImplementedError
        If the system has no such locks, as on Windows.
    """
    _fcntl()


def lock(file: int, place: int) -> None:
    """Lock the byte at `place` for this process alone. Wait until no other process has a lock on it."""
    fcntl = _fcntl()
    fcntl.lockf(file, fcntl.LOCK_EX, 1, place)


def try_lock(file: int, place: int, *, shared: bool = False) -> bool:
    """Lock the byte at `place`, and return True. Return False if another process's lock forbids that.

    Several processes can have a `shared` lock on a byte at once.
    """
    fcntl = _fcntl()
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB, 1, place)
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EAGAIN}:
            return False
        raise
    return True


def unlock(file: int, place: int) -> None:
    """Release this process's lock on the byte at `place`."""
    fcntl = _fcntl()
    fcntl.lockf(file, fcntl.LOCK_UN, 1, place)


def _fcntl() -> Any:
    # Import the module here: Windows lacks it, and must still be able to import `nn.parallel`.
    try:
        import fcntl
    except ModuleNotFoundError:
        raise NotImplementedError(
            "several workers on one machine require the module fcntl, which this system lacks: run one "
            "worker on this machine, or run the job on Linux or macOS"
        ) from None
    return fcntl
