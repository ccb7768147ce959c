"""Live view of a running program: memory by line, and the scopes, refreshed twice a second."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from scopes._shared.extras import how_to_install
from scopes._shared.sizes import format_bytes
from scopes.reports.leak_report import LeakReport
from scopes.reports.leaks import Snapshot, report_of
from scopes.reports.tree import ScopeRow, scope_tree
from scopes.tracking import tracking
from scopes.tracking.sites import Site

NO_RICH = f"--live needs rich, which is not installed: {how_to_install('report')}"
NO_TERMINAL = "--live shows nothing, because the standard error stream is not a terminal"

_PERIOD = 0.5
# Refreshes take at most this fraction of the time. With very many disposables they are rarer.
_LARGEST_PART = 0.1
# Growth is measured over this many seconds.
_WINDOW = 10.0
_MAX_LINES = 12
_MAX_SCOPES = 8
# The greatest width of all numeric columns, and the least width of the last column, in characters.
_FIGURES_WIDTH, _LEAST_WIDTH = 42, 20


class LiveView:
    """Thread that draws the living disposables on a terminal. Tracking must be on.

    Parameters
    ----------
    console
        The ``rich.console.Console`` to draw on.
    program
        The name of the program, for the title.
    """

    def __init__(self, console: Any, program: str) -> None:
        from rich.live import Live

        self._program = program
        self._console = console
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=_is_terminal("stdout"),
            redirect_stderr=_is_terminal("stderr"),
        )
        self._began = time.monotonic()
        # The time of each refresh in the window, and the bytes of each line then.
        self._past: deque[tuple[float, dict[Site, int]]] = deque()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="disposescope live view", daemon=True)

    def begin(self) -> None:
        """Start drawing."""
        self._live.start()
        self._thread.start()

    def end(self) -> None:
        """Stop drawing, and remove the view. A second call does nothing."""
        if not self._is_ending.is_set():
            self._is_ending.set()
            self._thread.join(timeout=5)
            with suppress(OSError, ValueError):  # the terminal is gone
                self._live.stop()

    def _run(self) -> None:
        pause = 0.0
        while not self._is_ending.wait(pause):
            began = time.monotonic()
            # The program may change the objects during `view`, and the terminal may be gone. Then skip this
            # refresh.
            with suppress(AttributeError, RuntimeError, OSError, ValueError):
                self._live.update(self.view(), refresh=True)
            took = time.monotonic() - began
            pause = max(_PERIOD - took, took / _LARGEST_PART)

    def view(self) -> Any:
        """Return the current view, for ``rich`` to print."""
        from rich.console import Group

        now = time.monotonic() - self._began
        report = _alive_now()
        growth = self._growth(now, report)
        title = (
            f"{self._program}: {now:.1f} s, {format_bytes(report.nbytes)} in {report.count:,} disposables, "
            f"{_signed(sum(growth.values()))} in {min(now, _WINDOW):.0f} s"
        )
        return Group(_text(title, "bold"), _lines(report, growth, self._width), _scopes(scope_tree().root))

    @property
    def _width(self) -> int:
        width: int = self._console.width
        return width

    def _growth(self, now: float, report: LeakReport) -> dict[Site, int]:
        """Return the growth of each line over the last `_WINDOW` seconds, in bytes."""
        kept = {row.site: row.nbytes for row in report.rows}
        past = self._past
        past.append((now, kept))
        while len(past) > 1 and past[1][0] <= now - _WINDOW:
            past.popleft()
        before = past[0][1]
        return {site: kept.get(site, 0) - before.get(site, 0) for site in {**before, **kept}}


def begin_live_view(program: str, say: Callable[[str], object]) -> LiveView | None:
    """Begin a live view on the standard error stream, or report that it is not a terminal.

    Raises
    ------
    ModuleNotFoundError
        If ``rich`` is not installed.
    """
    try:
        from rich.console import Console
    except ImportError as missing:
        raise ModuleNotFoundError(NO_RICH, name="rich") from missing
    console = Console(stderr=True)
    # Ask the stream too: with FORCE_COLOR, `rich` takes a file for a terminal.
    if not (_is_terminal("stderr") and console.is_terminal):
        say(NO_TERMINAL)
        return None
    view = LiveView(console, program)
    view.begin()
    return view


def _is_terminal(name: str) -> bool:
    stream = getattr(sys, name)
    return stream is not None and bool(stream.isatty())


def _alive_now() -> LeakReport:
    tracker = tracking.current.tracker
    alive = [] if tracker is None else tracker.alive()
    return report_of(alive, Snapshot(0, {}))


def _text(text: str, style: str = "") -> Any:
    from rich.text import Text

    return Text(text, style=style, overflow="ellipsis", no_wrap=True)


def _lines(report: LeakReport, growth: dict[Site, int], width: int) -> Any:
    most = max(width - _FIGURES_WIDTH, _LEAST_WIDTH)
    table = _table(("bytes", True), ("growth", True), ("alive", True), ("created by", False))
    rows = sorted(report.rows, key=lambda row: -row.nbytes)
    for row in rows[:_MAX_LINES]:
        change = growth[row.site]
        where = _text(f"{row.site}  {row.site.text}")
        where.truncate(most, overflow="ellipsis")
        table.add_row(
            format_bytes(row.nbytes),
            _text(_signed(change), "red" if change > 0 else ""),
            f"{row.count:,}",
            where,
        )
    rest = rows[_MAX_LINES:]
    if rest:
        nbytes, count = sum([row.nbytes for row in rest]), sum([row.count for row in rest])
        table.add_row(format_bytes(nbytes), "", f"{count:,}", f"{len(rest):,} more lines")
    return table


def _scopes(root: ScopeRow) -> Any:
    table = _table(("scope", False), ("ended", True), ("alive", True), ("bytes", True), ("peak", True))
    rows = [(depth, row) for depth, row in _walk(root, 0) if depth]
    for depth, row in rows[:_MAX_SCOPES]:
        name = _text(f"{'  ' * (depth - 1)}{row.path[-1]}")
        figures = (f"{row.rounds:,}", f"{row.alive_count:,}")
        table.add_row(name, *figures, format_bytes(row.alive_bytes), format_bytes(row.peak_bytes))
    return table if rows else ""


def _walk(row: ScopeRow, depth: int) -> Iterator[tuple[int, ScopeRow]]:
    yield depth, row
    for inner in row.inner:
        yield from _walk(inner, depth + 1)


def _table(*headings: tuple[str, bool]) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading, is_figure in headings:
        table.add_column(heading, justify="right" if is_figure else "left", no_wrap=True, overflow="ellipsis")
    return table


def _signed(nbytes: int) -> str:
    if nbytes == 0:
        return "0"
    return f"{'+' if nbytes > 0 else '-'}{format_bytes(abs(nbytes))}"
