"""The C heap: return the memory of disposed tensors to the system."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

# After this many bytes, the heap is trimmed. One call takes a millisecond or so.
_MUCH = 16 * 2**20
# In what the system calls pages.
_RESIDENT = Path("/proc/self/statm")

_freed = 0


def _find_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None


_trim = _find_trim()


def note_freed(nbytes: int) -> None:
    """Note that a tensor gave back `nbytes`; now and then, give the free parts of the heap to the system.

    glibc does so by itself only at the heap's end, which a single small object holds up.
    """
    global _freed
    _freed += nbytes
    if _freed >= _MUCH:
        trim()


def trim() -> None:
    """Give the free parts of the heap to the system, where that is possible."""
    global _freed
    _freed = 0
    if _trim is not None:
        _trim(0)


def resident_bytes() -> int | None:
    """Return the resident size of the process, or None if the system does not report it."""
    try:
        return int(_RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, AttributeError, ValueError):
        return None
