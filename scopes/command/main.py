"""The command line: ``disposescope run script.py``, and ``disposescope report`` of a record or a trace."""

from __future__ import annotations

import gc
import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from scopes._shared.descriptors import above_streams
from scopes._shared.memory_limits import killer_counter
from scopes._shared.sizes import parse_size
from scopes._shared.stderr import write_to_stderr
from scopes._shared.tracebacks import clear_frames_of, is_ours
from scopes.adapters.libraries import enable, still_held
from scopes.command import children, diff
from scopes.command.attach import attach
from scopes.command.completion import completion_for
from scopes.command.fits import fits
from scopes.command.last_report import settings_for
from scopes.command.options import PROGRAM, parse
from scopes.command.outputs import page_of, write_annotations, write_files, write_json
from scopes.command.program import CannotRunError, run
from scopes.command.watching import Watch, begin_watch
from scopes.core.statistics import statistics
from scopes.reports.history import History, format_lines
from scopes.reports.killed import last_words
from scopes.reports.leak_report import LeakReport
from scopes.reports.live import LiveView, begin_live_view
from scopes.reports.owners import explain
from scopes.reports.pages import write_page
from scopes.reports.processes import CHILDREN_LEAK
from scopes.reports.recording import RecordingHistory
from scopes.reports.run_record import NoRecordError, RunRecord
from scopes.reports.runs import record_of
from scopes.reports.spool import SUFFIX, Spool, is_record, read_record
from scopes.reports.tables import Report
from scopes.reports.timeline import Timeline
from scopes.reports.trace_report import NoTraceError, summarize
from scopes.reports.tree import scope_tree
from scopes.tracking import following, tracking
from scopes.tracking.shortage import is_out_of_memory, release

if TYPE_CHECKING:
    import argparse

    from scopes.adapters.torch.report import HeldReport
    from scopes.tracking.sites import Site

_arguments: list[str] = []


def main() -> None:
    """Run the command line, and exit."""
    global _arguments
    _arguments = sys.argv[1:]
    options = parse(_arguments)
    if options.command == "run":
        _run(options)
    elif options.command == "fits":
        fits(options)
    elif options.command == "attach":
        sys.exit(attach(options, PROGRAM))
    elif options.command == "report":
        _report(options)
    elif options.command == "diff":
        diff.run(options)
    else:
        _complete(options)


def _run(options: argparse.Namespace) -> NoReturn:
    clear_frames_of("runpy")  # runpy runs this file, and is not part of the program
    clear_frames_of("disposescope")  # neither is the command
    memory = _memory_instead_of_folder()
    watch = begin_watch(memory)  # first, while there is one thread
    if options.torch is False:
        os.environ[following.NO_TORCH] = "1"
    if options.torch:
        try:
            enable("torch")
        except ImportError as missing:
            write_to_stderr(f"{PROGRAM}: {missing}")
            sys.exit(1)
    tracking.begin(options.depth)
    folder = children.follow_children(options.depth, options.leak_threshold)
    history = _history(options, watch, memory, folder)
    history.begin()
    timeline = None
    if options.trace is not None or options.snapshot is not None:
        timeline = Timeline().__enter__()  # `_FinalReport` exits it when it writes the trace
    ending = _FinalReport(options, history, timeline, _live_view(options), watch)
    ending.report_on_sigterm()
    _pass_on_interrupts()
    children.begin_program()
    try:
        error = run(options.program, options.arguments, is_module=options.is_module)
    except CannotRunError as reason:
        ending.leave_out()
        write_to_stderr(f"{PROGRAM}: {reason}")
        sys.exit(reason.status)
    if is_out_of_memory(error):
        release()  # the traceback and the report need memory
    ending.error = error
    status = _show(error)
    try:
        # Wait for the program's threads, as Python does at exit: the report includes the tensors they keep.
        threading._shutdown()  # type: ignore[attr-defined]
    except KeyboardInterrupt as interrupt:
        error = interrupt
    # If the program failed, `error` keeps its frames alive, and their locals.
    ended = f"exit status {status}"
    if isinstance(error, KeyboardInterrupt):
        ended = "killed by SIGINT (Ctrl-C)"
    leaking = ending.report(ended)
    if isinstance(error, KeyboardInterrupt):
        # Python now exits by the signal, and must not show the error a second time.
        sys.excepthook = lambda *_: None
        raise error
    sys.exit(status or leaking)


def _memory_instead_of_folder() -> int | None:
    """Return a file in memory for the record, if the system has no folder for temporary files."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError:  # a container whose file system is read-only
        with suppress(AttributeError, OSError):
            return above_streams(os.memfd_create(PROGRAM))
    return None


def _history(options: argparse.Namespace, watch: Watch, memory: int | None, folder: Path | None) -> History:
    """Return the history of the run, with a record that outlives the program, if one can be written."""
    places: list[Path] = [] if options.record is None else [options.record]
    if folder is not None:
        places.append(folder / f"main{SUFFIX}")
    elif memory is not None:
        places.append(Path(f"/proc/self/fd/{memory}"))
    spool = None
    for place in places:
        try:
            spool = Spool(place)
            break
        except OSError as error:
            write_to_stderr(f"{PROGRAM}: the record of the run can't be written: {error}")
    watch.tell(
        settings_for(
            None if spool is None else spool.path,
            options.program,
            folder=folder,
            is_kept=spool is not None and spool.path == options.record,
            html=options.html,
            json=options.json,
            annotate=options.annotate,
            killer=killer_counter(),
        )
    )
    if spool is None:
        return History(options.every)
    return RecordingHistory(
        spool, options.program, options.arguments, threshold=options.leak_threshold, every=options.every
    )


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
        self,
        options: argparse.Namespace,
        history: History,
        timeline: Timeline | None,
        live: LiveView | None,
        watch: Watch,
    ) -> None:
        self._options = options
        self._watch = watch
        self._live = live
        self._history = history
        self._timeline = timeline
        # The error that ended the program.
        self.error: BaseException | None = None
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
            self.report("killed by SIGTERM")
        finally:
            signal.raise_signal(number)

    def leave_out(self) -> None:
        """Write no report: the program was not found."""
        self._has_reported = True
        self._close_record(None)

    def report(self, ended: str) -> int:
        """Write the report, and return the exit status for a program that succeeded.

        `ended` is how the program ended, for the record.
        """
        if self._has_reported or os.getpid() != self._process:
            return 0  # a second signal, or a forked child: the parent writes the report
        self._has_reported = True
        with _without_sigpipe():
            try:
                return self._write_report(ended)
            except MemoryError:
                write_to_stderr(f"{PROGRAM}: there is too little memory left for the report")
                return 0

    def _write_report(self, ended: str) -> int:
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
        processes, remarks = children.report(record)
        if processes is not None:
            parts.append(("By process:", processes))
        shortage = None if self.error is None else explain(self.error)
        if isinstance(shortage, str):
            write_to_stderr(f"\n{shortage}")
        elif shortage is not None:
            parts.insert(0, ("The program ran out of memory. What owned it:", shortage))
        for title, part in parts:
            write_to_stderr(f"\n{title}\n{part}")
        for text in remarks:
            write_to_stderr(f"\n{text}")
        if self._options.counts:
            write_to_stderr(f"\n{statistics}")
        if isinstance(self._history, RecordingHistory):
            record = self._history.with_facts(record)
        growing = _growing(held, parse_size(self._options.leak_threshold))
        is_child_leaking = processes is not None and processes.is_leaking
        held_more = f"Memory that disposed tensors could not free grows: {format_lines(growing)}. "
        in_children = f"{CHILDREN_LEAK} " if is_child_leaking else ""
        verdict = f"{in_children}{held_more if growing else ''}{record.verdict}"
        record = replace(record, ended=ended, verdict=verdict)
        is_written = self._write_files(parts, record)
        write_annotations(record, self._options.annotate)
        if self._options.fail_on_leak:
            verdict = f"--fail-on-leak: {verdict} --leak-threshold sets another size."
        write_to_stderr(f"\n{verdict}")
        is_leaking = self._options.fail_on_leak and (record.is_leaking or bool(growing) or is_child_leaking)
        if ended == "exit status 0" and (is_leaking or not is_written):
            record = replace(record, ended="exit status 1")
        self._close_record(record)
        return 1 if is_leaking or not is_written else 0

    def _close_record(self, record: RunRecord | None) -> None:
        """Write the last record if the file stays, and let the watcher end."""
        history, path = self._history, self._options.record
        if isinstance(history, RecordingHistory):
            is_kept = history.path == path
            history.close(record if is_kept else None, remove=not is_kept or record is None)
        self._watch.end()
        if self._watch.is_lost:
            write_to_stderr(
                f"{PROGRAM}: the process that watches this run has ended before it: if the run had been "
                "killed, there would be no report"
            )

    def _write_files(self, parts: list[tuple[str, Report]], record: RunRecord) -> bool:
        options, timeline = self._options, self._timeline
        writes: list[Callable[[], object]] = []
        if options.html is not None:
            chart = self._history.chart(next(part for _, part in parts if isinstance(part, LeakReport)))
            drawn = page_of(record, parts, command=_command_line(), chart=chart)
            writes.append(lambda: write_page(options.html, drawn))
        if options.json is not None:
            writes.append(lambda: write_json(options.json, record))
        if timeline is not None:
            timeline.__exit__(None, None, None)
            if options.trace is not None:
                writes.append(lambda: timeline.save(options.trace))
            if options.snapshot is not None:
                writes.append(lambda: timeline.save_snapshot(options.snapshot))
        return write_files(writes)


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


def _command_line() -> str:
    return " ".join([PROGRAM, *map(shlex.quote, _arguments)])


def _report(options: argparse.Namespace) -> None:
    path: Path = options.file
    try:
        text = _text_of_record(options) if is_record(path) else _text_of_trace(options)
    except OSError as error:
        sys.exit(f"{PROGRAM}: can't read {path}: {error.strerror}")
    except (NoTraceError, NoRecordError) as error:
        sys.exit(f"{PROGRAM}: {error}")
    _print("the summary", text)


def _text_of_trace(options: argparse.Namespace) -> str:
    if options.html is not None or options.json:
        sys.exit(f"{PROGRAM}: --html and --json are for the record of a run, and {options.file} is none")
    return str(summarize(options.file))


def _text_of_record(options: argparse.Namespace) -> str:
    record = read_record(options.file)
    if options.html is not None:
        try:
            write_page(options.html, page_of(record))
        except OSError as error:
            sys.exit(f"{PROGRAM}: can't write the report: {error}")
    return record.to_json() if options.json else f"{last_words(record)}\n\n{record.verdict}"


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
