"""Numbers of open files."""

from __future__ import annotations

import os

try:
    import fcntl
except ImportError:  # Windows, where Python opens its streams in any case
    fcntl = None  # type: ignore[assignment]

_FIRST = 3


def above_streams(descriptor: int) -> int:
    """Return `descriptor`, or another one for the same file if its number is that of a standard stream.

    In a program that was started without a stream, such as with ``>&-``, the next file gets its number. What
    is printed would then go to this file.
    """
    if descriptor >= _FIRST or fcntl is None:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    finally:
        os.close(descriptor)
