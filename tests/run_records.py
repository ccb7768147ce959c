"""Small records of runs for tests of what reports say about them."""

from __future__ import annotations

from typing import Any

from scopes import LeakReport, LeakRow, Line, Site
from scopes.reports.run_record import RunRecord

MIB = 2**20


def row(line: int, nbytes: int, *, per_round: float = 0.0, **more: Any) -> LeakRow:
    site = Site((Line("/home/me/a,b.py", line, "step"),))
    return LeakRow(site, ("Tensor",), 3, nbytes, 0.0, per_round, (), **more)


def record(
    *rows: LeakRow, rounds: int = 1, growing: tuple[tuple[Site, int], ...] = (), **more: Any
) -> RunRecord:
    parts = (("Now:", LeakReport(rows, rounds)),)
    return RunRecord("train.py", (), parts, "the verdict", growing, (), times=(None,), **more)
