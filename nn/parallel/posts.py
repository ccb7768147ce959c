"""What the workers of a job post to its `Board`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass
class WorkerReport:
    """The last report of one worker."""

    #: The figures of the worker, in the order of ``figures.row_of_now``: first its step and the time.
    row: list[int]
    #: The name of its machine and process.
    where: str = ""
    #: Why the worker ended early. Empty while it runs, or after a normal end.
    lost: str = ""
    has_ended: bool = False
    #: ``LeakReport.to_dict()``, if it was tracking.
    leaks: dict[str, Any] | None = None
    #: The compressed file of a timeline, and its start in nanoseconds since the epoch.
    trace: bytes = b""
    trace_began_at: int = 0


class Position(NamedTuple):
    """The point in the program where a worker waits. It is the same for workers that wait for each other."""

    #: The name of the `Group` of workers. Each start of the job has a new name.
    token: str
    step: int
    barriers: int
