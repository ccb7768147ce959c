"""Check output paths, so that a report never overwrites a user's file."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

# Marks near the beginning of our pages and traces.
PAGE_MARK = '<meta name="generator" content="disposescope">'
TRACE_MARK = '"recorder": "disposescope"'
# The first key and value of a pickled snapshot.
_SNAPSHOT_MARK = b"recorder\x94\x8c\x0cdisposescope"
_BEGINNING = 4096


def require_ours(path: str | PathLike[str]) -> Path:
    """Return `path` if no file exists there, or an empty file or a report of this library.

    Raises
    ------
    FileExistsError
        If any other file exists there.
    """
    found = Path(path)
    if found.is_file() and found.stat().st_size and not _is_ours(found):
        raise FileExistsError(
            f"{found} exists and is not a report of disposescope, so nothing was written there: name another "
            "file, or remove it"
        )
    return found


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    if beginning[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                beginning = file.read(_BEGINNING)
        except (OSError, EOFError, zlib.error):
            return False
    if _SNAPSHOT_MARK in beginning:
        return True
    text = beginning.decode(errors="replace")
    return PAGE_MARK in text or TRACE_MARK in text
