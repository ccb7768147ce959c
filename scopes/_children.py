"""Reports of multiprocessing children of a program under ``disposescope run``.

A forked child continues the tracking of its parent. A spawned child starts its own tracking when it imports
``scopes``, because an environment variable is set. When a child ends or is terminated, it writes a report to
a file, and the parent prints it. Children of ``os.fork`` or ``subprocess`` are not tracked: the report only
counts them. A killed child writes no report.
"""

from __future__ import annotations

import multiprocessing.util
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from contextlib import suppress
from multiprocessing import current_process, parent_process
from pathlib import Path
from types import FrameType
from typing import Any

from scopes.tracking import tracking
from scopes.tracking.history import History
from scopes.tracking.leaks import snapshot
from scopes.tracking.sizes import format_bytes

# The report only counts children that held fewer bytes than this.
_MIN_BYTES = 64 * 1024
_MAX_REPORTS = 5


class _ForkKey:
    """Key of the after-fork function: multiprocessing keeps the function as long as this object lives."""


_fork_key = _ForkKey()
_history: History | None = None
_is_reporting = False
# A signal that arrived while a report was being written.
_pending: int | None = None


def follow_children(depth: int) -> None:
    """Make children of this process write the reports that ``reports()`` returns."""
    sys.addaudithook(_count_untracked)
    os.environ[tracking.CHILDREN] = f"{depth}:{tempfile.mkdtemp(prefix='disposescope-')}"
    follow()


# The number of untracked children of this process, by how they were started.
_untracked: Counter[str] = Counter()


def _count_untracked(event: str, arguments: tuple[Any, ...]) -> None:
    """Count the children that are not tracked: forks of this process, and other runs of Python."""
    if event == "os.fork":
        # Children of multiprocessing are tracked.
        if not _is_called_by("multiprocessing.popen_fork"):
            _untracked[event] += 1
    elif event == "subprocess.Popen":
        command = arguments[1]
        program = command if isinstance(command, str | bytes | os.PathLike) else command[0]
        name = Path(os.fsdecode(program).partition(" ")[0]).name
        if name.startswith("python"):
            _untracked["subprocess"] += 1


def _is_called_by(module: str) -> bool:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == module:
            return True
        frame = frame.f_back
    return False


def follow() -> None:
    """Make this process, if it is a child, and its future children write reports."""
    if "--multiprocessing-fork" in sys.orig_argv:  # a spawned process runs no after-fork functions
        _begin()
    else:
        multiprocessing.util.register_after_fork(_fork_key, _begin_after_fork)


def _begin_after_fork(_: _ForkKey) -> None:
    if parent_process() is not None and tracking.CHILDREN in os.environ:
        _begin()


def _begin() -> None:
    global _history
    depth = int(os.environ[tracking.CHILDREN].partition(":")[0])
    tracker = tracking.begin(depth)
    tracker.listeners = ()  # drop the listeners of the parent
    _history = History(since=snapshot())
    _history.begin()
    multiprocessing.util.Finalize(None, _report_child, exitpriority=100)
    handler = signal.getsignal(signal.SIGTERM)
    if handler is signal.SIG_DFL or getattr(handler, "__module__", None) == "scopes._command":
        with suppress(ValueError):  # not on the main thread
            signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, _: FrameType | None) -> None:
    global _pending
    if _is_reporting:  # a pool also terminates workers that are already ending
        _pending = number
        return
    _report_child()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _report_child() -> None:
    """Write the report of this process, once."""
    global _history, _is_reporting
    history, _history = _history, None
    if history is None:
        return
    _is_reporting = True
    try:
        _write(history)
    finally:
        _is_reporting = False
    if _pending is not None:
        signal.signal(_pending, signal.SIG_DFL)
        signal.raise_signal(_pending)


def _write(history: History) -> None:
    at_the_end = history.look(with_all_holders=True)
    highest = history.high_water_mark()
    report = at_the_end if highest is None else highest[0]
    text = f"{current_process().name} (process {os.getpid()}) held at most {report}"
    folder = Path(os.environ[tracking.CHILDREN].partition(":")[2])
    with suppress(OSError):  # the parent has ended, and its folder is gone
        (folder / f"{report.weight:020}-{os.getpid()}").write_text(text, encoding="utf-8")


def reports() -> list[str]:
    """Return the reports of the children, largest first, and remove them."""
    setting = os.environ.pop(tracking.CHILDREN, None)
    if setting is None:
        return []
    folder = Path(setting.partition(":")[2])
    files = sorted(folder.glob("*-*"), reverse=True)
    large = [file for file in files if int(file.name.partition("-")[0]) >= _MIN_BYTES][:_MAX_REPORTS]
    texts = [file.read_text(encoding="utf-8") for file in large]
    left = len(files) - len(large)
    if left:
        more = "more " if large else ""
        texts.append(
            f"{left} {more}children of multiprocessing held less than {format_bytes(_MIN_BYTES)} each"
        )
    shutil.rmtree(folder, ignore_errors=True)
    if _untracked:
        counts = ", ".join([f"{count} of {by}" for by, count in sorted(_untracked.items())])
        texts.append(f"child processes that are not followed, as those of multiprocessing are: {counts}")
    return texts
