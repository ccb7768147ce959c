"""Write the latest record of a run to a file that outlives the process.

A record follows a look of the history if all records have taken less than 0.25% of the processor time, or if
the memory has grown much. A limit (see `scopes._shared.memory_limits`) is near when less memory is left than
the process has. From then on, looks and records follow each 3% of growth, whatever they cost.
"""

from __future__ import annotations

import os
import sys
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import current_process
from pathlib import Path
from typing import Any

from scopes._shared.memory_limits import Limit, find_limits, nearest_limit, resident_bytes
from scopes._shared.stderr import write_to_stderr
from scopes.reports.history import History
from scopes.reports.leak_report import LeakReport
from scopes.reports.leaks import Snapshot, report_of, without_collection
from scopes.reports.run_record import RunRecord
from scopes.reports.runs import LEAST_GROWTH, record_of
from scopes.reports.spool import Spool
from scopes.tracking.records import Record

# The processor time of all records, in nanoseconds: a fixed part, and a part of that of the process.
_FIXED_COST, _PART_OF_TIME = 3_000_000, 1 / 400
# A record follows this growth of the highest memory, whatever it costs: to allocate as much costs more.
_LARGE = 2**24
_GROWTH_SMALL, _GROWTH_LARGE = 2.0, 1.1
# Near a limit, looks and records follow this growth.
_GROWTH_NEAR = 1.03
# The nanoseconds between checks of the resident size, which take some 50 us. A look after growth checks too.
# To ask for what is left may take longer: it is asked for after more time, unless little is left.
_BETWEEN_CHECKS, _LEAST_BETWEEN_CHECKS, _BETWEEN_QUESTIONS = 200_000_000, 5_000_000, 500_000_000
_LITTLE = 3
# Resident memory that grows by this part and this many bytes is recorded too.
_GROWTH_RESIDENT, _LEAST_RESIDENT = 1.1, 2**25
# Nobody needs more moments of a run that was killed than a chart has points. Their text costs time.
_MAX_MOMENTS = 128


#: How a run ended whose block of ``track()`` ended.
LEFT_BLOCK = "left its block of track()"


class RecordingHistory(History):
    """History that writes its latest record to `spool`.

    The process that made it writes: a forked child closes the file, and measures without writing.

    Parameters
    ----------
    spool
        The file, which `close` closes.
    program, arguments
        The program, as the user wrote it.
    threshold
        The growth from which a line is a leak.
    details
        More fields of the records, such as ``rank=3``.
    every, tell, since
        Those of `History`.
    """

    # Attributes in slots are read faster: Python 3.11 has a slower dict for more than 30 of them.
    __slots__ = (
        "_arguments",
        "_began_processing",
        "_details",
        "_highest_recorded",
        "_highest_resident",
        "_is_near",
        "_last_cost",
        "_left",
        "_limit",
        "_limits",
        "_next_check",
        "_next_moment",
        "_next_question",
        "_pid",
        "_program",
        "_recorded_resident",
        "_recorded_weight",
        "_resident",
        "_resident_before",
        "_spent",
        "_spool",
        "_threshold",
        "path",
    )

    def __init__(
        self,
        spool: Spool,
        program: str,
        arguments: Sequence[str] = (),
        *,
        threshold: int | str = LEAST_GROWTH,
        details: dict[str, Any] | None = None,
        every: float | None = None,
        tell: Callable[[str], object] | None = None,
        since: Snapshot | None = None,
    ) -> None:
        super().__init__(every, tell, since)
        self._spool: Spool | None = spool
        #: The file of the record.
        self.path: Path = spool.path
        self._program, self._arguments = program, tuple(arguments)
        self._threshold = threshold
        self._details = {"name": current_process().name, "rank": rank_of_process(), **(details or {})}
        self._pid = os.getpid()
        self._limits = find_limits()
        self._limit: Limit | None = None
        # The bytes that are left, about, and when to ask for them again.
        self._left = sys.maxsize
        self._next_question = 0
        self._is_near = False
        self._resident_before = self._resident = resident_bytes()
        self._next_check = self._next_moment = self._began
        # The weight and the resident size of the latest record, and the time of all records.
        self._recorded_weight = self._highest_recorded = -1
        self._recorded_resident = self._highest_resident = 0
        self._spent = self._last_cost = 0
        self._began_processing = time.process_time_ns()
        _close_in_children(self)

    def begin(self) -> None:
        """Start listening, and write the first record: nothing is alive."""
        super().begin()
        self._record(LeakReport((), 1), 0)

    def end(self) -> None:
        """Stop listening, and write the last record, if the file is open."""
        if self._spool is not None and os.getpid() == self._pid:
            record = record_of(self, self._program, self._threshold, arguments=self._arguments)
            self.close(self.with_facts(replace(record, ended=LEFT_BLOCK)))
        super().end()

    def close(self, record: RunRecord | None = None, *, remove: bool = False) -> None:
        """Write the last record, if one is given, and close the file."""
        if record is not None:
            self._store(record)
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close(remove=remove)

    def with_facts(self, record: RunRecord) -> RunRecord:
        """Return `record` with the memory of this process and its limit."""
        resident = resident_bytes()
        unexplained = None
        if resident is not None and self._resident_before is not None:
            unexplained = max(resident - self._resident_before - record.latest.nbytes, 0)
        return replace(
            record,
            resident_bytes=resident,
            limit_bytes=None if self._limit is None else self._limit.nbytes,
            limit_kind="" if self._limit is None else self._limit.kind,
            unexplained_bytes=unexplained,
            **self._details,
        )

    def _measure(
        self, newest: Record | None = None, *, with_all_holders: bool = False
    ) -> tuple[LeakReport, int]:
        report, at = super()._measure(newest, with_all_holders=with_all_holders)
        if self._spool is not None and os.getpid() == self._pid and self._is_due(report.weight):
            self._record(report, at)
        return report, at

    def _is_due(self, weight: int) -> bool:
        growth = _GROWTH_LARGE if weight >= _LARGE else _GROWTH_SMALL
        if weight > growth * self._highest_recorded:
            return True
        if self._has_resident_grown():
            return True
        if self._is_near:
            grown = weight / _GROWTH_NEAR**0.5 > self._recorded_weight
            if grown or (self._resident or 0) / _GROWTH_NEAR**0.5 > self._recorded_resident:
                return True
        passed = time.process_time_ns() - self._began_processing
        return self._spent + self._last_cost <= _FIXED_COST + passed * _PART_OF_TIME

    def _record(self, report: LeakReport, at: int) -> None:
        began = time.thread_time_ns()
        with without_collection():
            latest = self._judged(report, at), at / 1e9
            record = record_of(self, self._program, self._threshold, arguments=self._arguments, latest=latest)
            step = max(1, -(-len(record.moments) // _MAX_MOMENTS))
            moments = record.moments[::-1][::step][::-1]
            self._store(self.with_facts(replace(record, moments=moments)))
        self._recorded_weight, self._recorded_resident = report.weight, self._resident or 0
        self._highest_recorded = max(self._highest_recorded, report.weight)
        self._highest_resident = max(self._highest_resident, self._recorded_resident)
        self._last_cost = time.thread_time_ns() - began
        self._spent += self._last_cost

    def _store(self, record: RunRecord) -> None:
        spool = self._spool
        if spool is None or os.getpid() != self._pid:
            return
        try:
            is_stored = spool.write(record.to_json())
            if not is_stored:
                # Usually thousands of lines: the first ones matter.
                spool.write(_shortened(record).to_json())
        except OSError as error:
            # Once: the run goes on, and the file keeps the record before.
            self._spool = None
            with suppress(OSError):
                spool.close()
            write_to_stderr(f"disposescope: the record of the run is no longer written: {error}")

    def _has_resident_grown(self) -> bool:
        """Return whether the resident size is higher than in each record before."""
        highest = self._highest_resident
        return (self._resident or 0) > max(highest * _GROWTH_RESIDENT, highest + _LEAST_RESIDENT)

    def _look_if_free(self, newest: Record) -> None:
        now = newest.created_at
        has_grown = self._bytes_alive > self._next_bytes
        if has_grown and now >= self._next_check - _BETWEEN_CHECKS + _LEAST_BETWEEN_CHECKS:
            self._next_check = now + _BETWEEN_CHECKS
            self._next_moment = min(self._next_check, self._next_report)
            self._check(newest)
        if self._is_near and self._bytes_alive > self._next_bytes:
            self._take_look(newest)
        else:
            super()._look_if_free(newest)

    def _at_moment(self, newest: Record) -> None:
        now = newest.created_at
        if now >= self._next_report:
            self._print_report(newest)
        if now >= self._next_check:
            self._next_check = now + _BETWEEN_CHECKS
            self._check(newest)
        self._next_moment = min(self._next_report, self._next_check)

    def _check(self, newest: Record) -> None:
        """Read how near a limit is, and write a record if memory has grown that no tensor explains."""
        if self._spool is None or os.getpid() != self._pid:
            return
        resident, before = resident_bytes() or 0, self._resident or 0
        self._resident = resident
        self._left -= max(resident - before, 0)
        if self._left < _LITTLE * resident or newest.created_at >= self._next_question:
            self._next_question = newest.created_at + _BETWEEN_QUESTIONS
            self._ask_for_limits(resident)
        is_more = self._is_near and resident > self._recorded_resident * _GROWTH_NEAR
        if is_more or self._has_resident_grown():
            self._record_now(newest)

    def _record_now(self, newest: Record) -> None:
        """Write a record without a look, since looks follow what the program creates, and not the clock."""
        if self._is_looking:
            return
        self._is_looking = True
        try:
            with without_collection():
                alive, before, _ = self._alive(newest)
                report = report_of(alive[before:], self._since, alive[:before], self._lasting)
                self._record(report, time.perf_counter_ns() - self._began)
        except (AttributeError, RuntimeError):
            pass  # another thread is changing the objects: the next check finds them
        finally:
            self._is_looking = False

    def _ask_for_limits(self, resident: int) -> None:
        nearest = nearest_limit(self._limits)
        if nearest is None:
            return
        self._limit, self._left = nearest
        if self._left < resident and not self._is_near:
            self._is_near = True
            self._growth = _GROWTH_NEAR
            self._next_bytes = min(self._next_bytes, int(self._bytes_alive * _GROWTH_NEAR))

    def _forget_file(self) -> None:
        spool, self._spool = self._spool, None
        if spool is not None:
            spool.close()


# The environment variables that launchers set, in the order in which they are asked.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")


def rank_of_process() -> int | None:
    """Return the rank of this process in a job of several processes; None outside of one."""
    found = [os.environ[name] for name in _RANKS if os.environ.get(name, "").isdecimal()]
    return int(found[0]) if found else None


def _close_in_children(history: RecordingHistory) -> None:
    """Let a forked child close the file, which is locked as long as one process has it open."""
    if hasattr(os, "register_at_fork"):
        found = weakref.ref(history)
        os.register_at_fork(after_in_child=lambda: _forget(found))


def _forget(found: weakref.ref[RecordingHistory]) -> None:
    history = found()
    if history is not None:
        history._forget_file()


# The rows of each part of a record that did not fit.
_FEW_ROWS = 100


def _shortened(record: RunRecord) -> RunRecord:
    parts = [(title, replace(report, rows=report.rows[:_FEW_ROWS])) for title, report in record.parts]
    return replace(record, parts=tuple(parts))
