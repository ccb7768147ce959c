"""The record of a run: what one process kept, as plain data that another process or machine can read."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from itertools import zip_longest
from typing import Any

from scopes.reports.leak_report import LeakReport, lines_of, site_from
from scopes.tracking.sites import Site

#: The version of the schema that ``RunRecord.to_dict()`` writes and ``from_dict()`` reads.
SCHEMA = 1


class NoRecordError(ValueError):
    """The file or the data is not a record of a run. The message says why."""


@dataclass(frozen=True, repr=False)
class RunRecord:
    """What a process of a run kept, up to one moment.

    ``to_dict()`` returns it as plain data for JSON. ``RunRecord.from_dict(data)`` reads it on any machine:
    the lines of the user's code have the source text of the run.
    """

    #: The program and its arguments, as the user wrote them.
    program: str
    arguments: tuple[str, ...]
    #: The titled reports, the most important one first.
    parts: tuple[tuple[str, LeakReport], ...]
    #: The verdict in words, which says what was watched.
    verdict: str
    #: The lines that keep more and more, with the growth in bytes, largest first.
    growing: tuple[tuple[Site, int], ...]
    #: Moments of the run: seconds since its beginning, and the bytes that all lines kept (a graph's operation
    #: counts as 256).
    moments: tuple[tuple[float, int], ...]
    #: The process, its parent, its name, and its rank in a job of several processes; None outside of one.
    pid: int = field(default_factory=os.getpid)
    parent_pid: int = field(default_factory=os.getppid)
    name: str = "MainProcess"
    rank: int | None = None
    #: The version of Python.
    python: str = sys.version.split()[0]
    #: The moment of this record: seconds since 1970.
    at: float = field(default_factory=time.time)
    #: The seconds from the beginning of the run to this record.
    seconds: float = 0.0
    #: How the process ended, such as "exit status 0"; None while it runs, or if the record does not tell.
    ended: str | None = None
    #: The resident size of the process and the memory that it may use, in bytes; None if unknown.
    resident_bytes: int | None = None
    limit_bytes: int | None = None
    #: Whose limit it is, in words, such as "the container's limit".
    limit_kind: str = ""
    #: For each part, the seconds after which it was measured; None for the end of the run, or for the latest
    #: moment of a run that goes on.
    times: tuple[float | None, ...] = ()
    #: The growth of the resident size since the beginning of the run that no line explains, in bytes: other
    #: objects of Python, other libraries, and free memory that allocators keep. None if unknown.
    unexplained_bytes: int | None = None

    @property
    def is_leaking(self) -> bool:
        """Whether lines keep more and more memory."""
        return bool(self.growing)

    @property
    def latest(self) -> LeakReport:
        """The report of the end, or of the latest moment."""
        times = self.times or (None,) * len(self.parts)
        return next(report for (_, report), at in zip(self.parts, times, strict=True) if at is None)

    @property
    def highest(self) -> tuple[LeakReport, float] | None:
        """The report of the earlier moment that held most, with its seconds; None if the end held as much."""
        earlier = [
            (report, at) for (_, report), at in zip(self.parts, self.times, strict=False) if at is not None
        ]
        return max(earlier, key=lambda part: part[0].weight, default=None)

    @property
    def tables(self) -> str:
        """The parts with their titles, as text."""
        return "\n\n".join([f"{title}\n{report}" for title, report in self.parts])

    def __str__(self) -> str:
        return f"{self.tables}\n\n{self.verdict}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = [f"<h4>{escape(title)}</h4>\n{report._repr_html_()}" for title, report in self.parts]
        return "\n".join([*tables, f"<p>{escape(self.verdict)}</p>"])

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain data for JSON. Sizes are bytes, times are seconds."""
        return {
            "recorder": "disposescope",
            "schema": SCHEMA,
            "program": self.program,
            "arguments": list(self.arguments),
            "pid": self.pid,
            "parent_pid": self.parent_pid,
            "name": self.name,
            "rank": self.rank,
            "python": self.python,
            "at": self.at,
            "seconds": self.seconds,
            "ended": self.ended,
            "resident_bytes": self.resident_bytes,
            "limit_bytes": self.limit_bytes,
            "limit_kind": self.limit_kind,
            "unexplained_bytes": self.unexplained_bytes,
            "parts": [
                {"title": title, "after": at, **report.to_dict()}
                for (title, report), at in zip_longest(self.parts, self.times)
            ],
            "verdict": self.verdict,
            "growing": [{"lines": lines_of(site), "risen": risen} for site, risen in self.growing],
            "moments": [list(moment) for moment in self.moments],
        }

    @classmethod
    def from_dict(cls, data: Any) -> RunRecord:
        """Return the record of which ``to_dict()`` returned `data`.

        Raises
        ------
        NoRecordError
            If `data` is no record, or of a later version of this library.
        """
        schema = data.get("schema") if isinstance(data, Mapping) else None
        if not isinstance(schema, int):
            raise NoRecordError("this is not the record of a run: it has no number of its schema")
        if schema > SCHEMA:
            raise NoRecordError(
                f"a later version of disposescope wrote this record (schema {schema}, this version reads up "
                f"to {SCHEMA}): update disposescope"
            )
        try:
            return cls(
                program=data["program"],
                arguments=tuple(data["arguments"]),
                parts=tuple([(part["title"], LeakReport.from_dict(part)) for part in data["parts"]]),
                verdict=data["verdict"],
                growing=tuple([(site_from(each["lines"]), each["risen"]) for each in data["growing"]]),
                moments=tuple([(seconds, nbytes) for seconds, nbytes in data["moments"]]),
                pid=data["pid"],
                parent_pid=data["parent_pid"],
                name=data["name"],
                rank=data["rank"],
                python=data["python"],
                at=data["at"],
                seconds=data["seconds"],
                ended=data["ended"],
                resident_bytes=data["resident_bytes"],
                limit_bytes=data["limit_bytes"],
                limit_kind=data["limit_kind"],
                times=tuple([part.get("after") for part in data["parts"]]),
                unexplained_bytes=data.get("unexplained_bytes"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise NoRecordError(f"this record of a run is damaged: {error!r}") from error

    def to_json(self) -> str:
        """Return the record as JSON, in the schema of ``to_dict()``."""
        return json.dumps(self.to_dict(), ensure_ascii=False)
