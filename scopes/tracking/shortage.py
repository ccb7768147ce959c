"""Errors for a lack of memory, and a reserve of address space for the report about them."""

from __future__ import annotations

import mmap
import sys
from contextlib import suppress

# PyTorch raises a RuntimeError on the CPU, and JAX an error of its own for each device.
_TEXTS = ("can't allocate memory", "not enough memory: you tried to allocate", "RESOURCE_EXHAUSTED")
_MAX_CAUSES = 8
# Under a limit of the address space (RLIMIT_AS), a report needs some. These pages are never written.
_RESERVE = 16 * 2**20
_reserve: list[mmap.mmap] = []


def is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether `error`, or an error that caused it, says that memory is short. Runs no user code."""
    for _ in range(_MAX_CAUSES):
        if error is None:
            return False
        if _says_so(error):
            return True
        cause = error.__cause__
        error = cause if cause is not None or error.__suppress_context__ else error.__context__
    return False


def _says_so(error: BaseException) -> bool:
    kind = type(error)
    if issubclass(kind, MemoryError):
        return True
    known = getattr(sys.modules.get("torch"), "__dict__", {}).get("OutOfMemoryError")
    if isinstance(known, type) and issubclass(kind, known):
        return True
    if kind.__name__ == "OutOfMemoryError" and kind.__module__.startswith("cupy."):
        return True
    arguments = error.args
    text = arguments[0] if type(arguments) is tuple and arguments else None
    return issubclass(kind, RuntimeError) and type(text) is str and any(each in text for each in _TEXTS)


def reserve() -> None:
    """Reserve address space for a report, if there is none yet. Nothing is reserved if memory is short."""
    if sys.platform != "win32" and not _reserve:
        with suppress(OSError, MemoryError, ValueError):
            _reserve.append(mmap.mmap(-1, _RESERVE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def release() -> None:
    """Release the reserve."""
    while _reserve:
        _reserve.pop().close()
