"""The C heap: return the memory of disposed tensors to the system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

# The heap is trimmed after this many freed bytes. One trim takes about a millisecond.
_MUCH = 16 * 2**20
# A file with the sizes of the process, in pages.
_RESIDENT = Path("/proc/self/statm")

_freed = 0


def _find_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None


_trim = _find_trim()


def note_freed(nbytes: int) -> None:
    """Count `nbytes` freed by a tensor, and trim the heap from time to time.

    glibc itself only trims the end of the heap, which one small object can prevent.
    """
    global _freed
    _freed += nbytes
    if _freed >= _MUCH:
        trim()


def trim() -> None:
    """Return the free parts of the heap to the system, if the C library can do it."""
    global _freed
    _freed = 0
    if _trim is not None:
        _trim(0)


def resident_bytes() -> int | None:
    """Return the resident size of the process, or None if the system does not report it."""
    try:
        return int(_RESIDENT.read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError, ValueError):
        return None
