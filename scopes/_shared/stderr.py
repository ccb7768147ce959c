"""Write to the standard error stream, which may be closed, broken or an object of the program."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TextIO


def write_to_stderr(text: str) -> None:
    """Write `text` and a newline to the standard error stream. Raise nothing if it can't be written."""
    stream = getattr(sys, "stderr", None)
    if stream is not None and not _is_written(stream, text) and sys.__stderr__ not in (None, stream):
        _is_written(sys.__stderr__, text)


def _is_written(stream: TextIO, text: str) -> bool:
    with suppress(Exception):  # also RuntimeError: a signal interrupted a write of the program
        stream.flush()
    with suppress(Exception):
        _write(stream, f"{text}\n")
        return True
    return False


def _write(stream: TextIO, text: str) -> None:
    if type(stream) is io.TextIOWrapper and isinstance(stream.buffer, io.BufferedWriter | io.FileIO):
        # Use another buffer. What can't be written would stay in that of `stream`. At exit Python would try
        # again to write it, and end with status 120.
        number, encoding = stream.fileno(), stream.encoding
        with open(number, "w", encoding=encoding, errors="backslashreplace", closefd=False) as file:
            file.write(text)
        return
    try:
        stream.write(text)
    except UnicodeError:
        stream.write(text.encode("ascii", "backslashreplace").decode())
    with suppress(AttributeError):
        stream.flush()
