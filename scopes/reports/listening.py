"""The listener of ``track(every=..., survive=...)``."""

from __future__ import annotations

import os
import sys

from scopes.reports.history import History
from scopes.reports.recording import RecordingHistory
from scopes.reports.spool import Spool


def history_of(every: float | None, path: str | os.PathLike[str] | None) -> History:
    """Return a history that prints reports `every` so many seconds, and writes its record to `path`."""
    if path is None:
        return History(every)
    program, *arguments = sys.argv or ["python"]
    return RecordingHistory(Spool(path), program or "python", arguments, every=every)
