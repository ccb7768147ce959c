"""The command line: ``disposescope run script.py`` and ``disposescope report trace.json``."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from html import escape
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from scopes._shared.sizes import parse_size
from scopes._shared.stderr import write_to_stderr
from scopes._shared.tracebacks import clear_frames_of, is_ours
from scopes.adapters.libraries import enable, still_held
from scopes.command import children
from scopes.command.completion import completion_for
from scopes.command.options import PROGRAM, parse
from scopes.command.program import CannotRunError, run
from scopes.core.statistics import statistics
from scopes.reports.history import History, format_lines
from scopes.reports.live import LiveView, begin_live_view
from scopes.reports.pages import page, write_page
from scopes.reports.runs import record_of
from scopes.reports.tables import Report
from scopes.reports.timeline import Timeline
from scopes.reports.trace_report import NoTraceError, summarize
from scopes.reports.tree import scope_tree
from scopes.tracking import following, tracking

if TYPE_CHECKING:
    import argparse

    from scopes.adapters.torch.report import HeldReport
    from scopes.reports.run_record import RunRecord
    from scopes.tracking.sites import Site

_arguments: list[str] = []


def main() -> None:
    """Run the command line, and exit."""
    global _arguments
    _arguments = sys.argv[1:]
    options = parse(_arguments)
    if options.command == "run":
        _run(options)
    elif options.command == "report":
        _report(options)
    else:
        _complete(options)


def _run(options: argparse.Namespace) -> NoReturn:
    clear_frames_of("runpy")  # runpy runs this file, and is not part of the program
    if options.torch is False:
        os.environ[following.NO_TORCH] = "1"
    if options.torch:
        try:
            enable("torch")
        except ImportError as missing:
            write_to_stderr(f"{PROGRAM}: {missing}")
            sys.exit(1)
    tracking.begin(options.depth)
    children.follow_children(options.depth)
    history = History(options.every)
    history.begin()
    timeline = None
    if options.trace is not None or options.snapshot is not None:
        timeline = Timeline().__enter__()  # `_FinalReport` exits it when it writes the trace
    ending = _FinalReport(options, history, timeline, _live_view(options))
    ending.report_on_sigterm()
    _pass_on_interrupts()
    try:
        error = run(options.program, options.arguments, is_module=options.is_module)
    except CannotRunError as reason:
        write_to_stderr(f"{PROGRAM}: {reason}")
        sys.exit(reason.status)
    status = _show(error)
    try:
        # Wait for the program's threads, as Python does at exit: the report includes the tensors they keep.
        threading._shutdown()  # type: ignore[attr-defined]
    except KeyboardInterrupt as interrupt:
        error = interrupt
    # If the program failed, `error` keeps its frames alive, and their locals.
    leaking = ending.report()
    if isinstance(error, KeyboardInterrupt):
        # Python now exits by the signal, and must not show the error a second time.
        sys.excepthook = lambda *_: None
        raise error
    sys.exit(status or leaking)


def _live_view(options: argparse.Namespace) -> LiveView | None:
    if not options.live:
        return None
    try:
        return begin_live_view(options.program, write_to_stderr)
    except ModuleNotFoundError as missing:
        write_to_stderr(f"{PROGRAM}: {missing}")
        sys.exit(1)


def _pass_on_interrupts() -> None:
    """Send an interrupt again if it was raised in a finalizer of this library, where Python drops it."""
    usual = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        traceback = unraisable.exc_traceback
        if unraisable.exc_type is KeyboardInterrupt and traceback is not None and is_ours(traceback.tb_frame):
            _send_soon(signal.SIGINT)
        else:
            usual(unraisable)

    sys.unraisablehook = hook


def _send_soon(number: int) -> None:
    # On Windows os.kill() ends the process, even if there is a handler.
    send = signal.raise_signal if sys.platform == "win32" else partial(os.kill, os.getpid())
    timer = threading.Timer(0.01, send, (number,))
    timer.daemon = True  # the program does not wait for it at exit
    timer.start()


def _show(error: BaseException | None) -> int:
    """Print `error` as Python does for an uncaught exception, and return the exit status."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return error.code or 0
        write_to_stderr(str(error.code))
        return 1
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit as exit:
        return _show(exit)
    except Exception as failure:  # noqa: BLE001
        if failure.__traceback__ is not None:
            failure.__traceback__ = failure.__traceback__.tb_next  # without the frame of this function
        for title, each in (("Error in sys.excepthook:", failure), ("\nOriginal exception was:", error)):
            write_to_stderr(title)
            sys.__excepthook__(type(each), each, each.__traceback__)
    return 1


class _FinalReport:
    """Writes the report once, when the program has ended."""

    def __init__(
        self, options: argparse.Namespace, history: History, timeline: Timeline | None, live: LiveView | None
    ) -> None:
        self._options = options
        self._live = live
        self._history = history
        self._timeline = timeline
        self._process = os.getpid()
        self._has_reported = False

    def report_on_sigterm(self) -> None:
        """Write the report before SIGTERM ends the program, unless the program handles the signal itself."""
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._terminated)
            if sys.platform != "win32":
                os.register_at_fork(after_in_child=self._leave_sigterm)

    def _leave_sigterm(self) -> None:
        """Let SIGTERM end a forked child at once, as it does without this command."""
        if signal.getsignal(signal.SIGTERM) == self._terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _terminated(self, number: int, _: FrameType | None) -> None:
        timeline = self._timeline
        if timeline is not None and timeline._entering.is_held_here():
            # The signal interrupted this thread while it recorded an event. Try again in a moment.
            _send_soon(number)
            return
        signal.signal(number, signal.SIG_DFL)
        try:
            self.report()
        finally:
            signal.raise_signal(number)

    def report(self) -> int:
        """Write the report, and return the exit status for a program that succeeded."""
        if self._has_reported or os.getpid() != self._process:
            return 0  # a second signal, or a forked child: the parent writes the report
        self._has_reported = True
        with _without_sigpipe():
            return self._write_report()

    def _write_report(self) -> int:
        if self._live is not None:
            self._live.end()
        with suppress(Exception):  # None, or a stream of the program: Python itself reports what is broken
            sys.stdout.flush()
        gc.collect()  # garbage is not a leak
        record = record_of(
            self._history,
            self._options.program,
            self._options.leak_threshold,
            arguments=self._options.arguments,
        )
        held = still_held()
        parts = _parts(record, held)
        for title, part in parts:
            write_to_stderr(f"\n{title}\n{part}")
        for text in children.reports():
            write_to_stderr(f"\n{text}")
        if self._options.counts:
            write_to_stderr(f"\n{statistics}")
        is_written = self._write_files(parts)
        growing = _growing(held, parse_size(self._options.leak_threshold))
        if self._options.fail_on_leak:
            held_more = f"Memory that disposed tensors could not free grows: {format_lines(growing)}. "
            verdict = f"{held_more if growing else ''}{record.verdict}"
            write_to_stderr(f"\n--fail-on-leak: {verdict} --leak-threshold sets another size.")
        is_leaking = self._options.fail_on_leak and (record.is_leaking or bool(growing))
        return 1 if is_leaking or not is_written else 0

    def _write_files(self, parts: list[tuple[str, Report]]) -> bool:
        options, timeline = self._options, self._timeline
        writes: list[Callable[[], object]] = []
        if options.html is not None:
            writes.append(lambda: write_page(options.html, _page(parts, self._history, options.program)))
        if timeline is not None:
            timeline.__exit__(None, None, None)
            if options.trace is not None:
                writes.append(lambda: timeline.save(options.trace))
            if options.snapshot is not None:
                writes.append(lambda: timeline.save_snapshot(options.snapshot))
        is_written = True
        for write in writes:
            try:
                write()
            except OSError as error:
                write_to_stderr(f"{PROGRAM}: can't write the report: {error}")
                is_written = False
        return is_written


@contextmanager
def _without_sigpipe() -> Iterator[None]:
    """Make a write to a closed pipe an error, also if the program lets SIGPIPE end it."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGPIPE) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def _growing(held: HeldReport | None, threshold: int) -> list[tuple[Site, int]]:
    """Return the lines whose disposed tensors hold more and more memory, with the bytes."""
    rows = () if held is None else held.rows
    return [(row.site, row.nbytes) for row in rows if row.is_growing and row.nbytes >= threshold]


def _parts(record: RunRecord, held: HeldReport | None) -> list[tuple[str, Report]]:
    """Return the titled parts of the report: the record's, memory still held, and the tree of scopes."""
    parts: list[tuple[str, Report]] = [*record.parts]
    if held is not None:
        parts.append(("Disposed, but not free:", held))
    tree = scope_tree()
    if tree.root.inner:
        parts.append(("All scopes of the run:", tree))
    return parts


def _page(parts: list[tuple[str, Report]], history: History, program: str) -> str:
    tables = [f"<h2>{escape(title)}</h2>\n{part._repr_html_()}" for title, part in parts]
    command = " ".join([PROGRAM, *map(shlex.quote, _arguments)])
    facts = (command, f"Python {sys.version.split()[0]}")
    return page(f"What {program} kept", "\n".join(tables), facts, history.chart(parts[0][1]))


def _report(options: argparse.Namespace) -> None:
    try:
        summary = summarize(options.trace)
    except OSError as error:
        sys.exit(f"{PROGRAM}: can't read {options.trace}: {error.strerror}")
    except NoTraceError as error:
        sys.exit(f"{PROGRAM}: {error}")
    _print("the summary", str(summary))


def _complete(options: argparse.Namespace) -> None:
    try:
        script = completion_for(options.shell)
    except ModuleNotFoundError as missing:
        sys.exit(f"{PROGRAM}: {missing}")
    _print("the script", script)


def _print(what: str, text: str) -> None:
    if sys.stdout is None:
        sys.exit(f"{PROGRAM}: can't write {what}: the standard output is closed")
    try:
        sys.stdout.write(f"{text}\n")
    except (OSError, UnicodeError) as error:
        sys.exit(f"{PROGRAM}: can't write {what}: {error}")
