"""Reports of multiprocessing children of a program under ``disposescope run``.

A forked child continues the tracking of its parent. A spawned child starts its own tracking when it imports
``scopes``, because an environment variable is set. A child writes a report to a file whenever its high-water
mark has risen by a tenth, and at its end. The parent prints the last report of each. Children of ``os.fork``
or ``subprocess`` are not tracked: the report only counts them.
"""

from __future__ import annotations

import multiprocessing.util
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from multiprocessing import current_process, parent_process
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from scopes._shared.sizes import format_bytes
from scopes.reports.history import GROWTH, History
from scopes.reports.leak_report import LeakReport
from scopes.reports.leaks import Snapshot, snapshot
from scopes.tracking import tracking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scopes.tracking.records import Record

    _Program = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# The report only counts children that held fewer bytes than this.
_MIN_BYTES = 64 * 1024
_MAX_REPORTS = 5


class _ForkKey:
    """Key of the after-fork function: multiprocessing keeps the function as long as this object lives."""


_fork_key = _ForkKey()


def follow_children(depth: int) -> None:
    """Make children of this process write the reports that ``reports()`` returns.

    Without a folder that can be written, children are not tracked, and ``reports()`` says so.
    """
    global _obstacle
    sys.addaudithook(_count_untracked)
    os.environ.pop(tracking.CHILDREN, None)  # that of another run, which started this one
    try:
        folder = tempfile.mkdtemp(prefix="disposescope-")
    except OSError as error:  # a read-only file system
        _obstacle = str(error)
        return
    # Also if the program was not found. In a forked child, a `Finalize` of this process does nothing.
    multiprocessing.util.Finalize(None, shutil.rmtree, (folder, True), exitpriority=-100)
    os.environ[tracking.CHILDREN] = f"{depth}:{folder}"
    follow()


# Why there is no folder for the reports of children, or "".
_obstacle = ""
# The number of untracked children of this process, by how they were started.
_untracked: Counter[str] = Counter()


def _count_untracked(event: str, arguments: tuple[Any, ...]) -> None:
    """Count the children that are not tracked: forks of this process, and other runs of Python."""
    if event == "os.fork":
        # Children of multiprocessing are tracked.
        if not _is_called_by("multiprocessing.popen_fork"):
            _untracked[event] += 1
    elif event == "subprocess.Popen" and program_of(*arguments[:2]).name.startswith("python"):
        _untracked["subprocess"] += 1


def program_of(executable: _Program | None, command: _Program | Sequence[_Program]) -> Path:
    """Return the program that ``subprocess`` starts."""
    if executable is not None:
        return Path(os.fsdecode(executable))
    # On Windows, the command can be one string, with quotes around a path that has spaces.
    if isinstance(command, str):
        quote, begin = ('"', 1) if command.startswith('"') else (" ", 0)
        return Path(command[begin:].partition(quote)[0])
    return Path(os.fsdecode(command if isinstance(command, bytes | os.PathLike) else command[0]))


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
    depth = int(os.environ[tracking.CHILDREN].partition(":")[0])
    tracker = tracking.begin(depth)
    tracker.listeners = ()  # drop the listeners of the parent
    history = _ChildHistory(snapshot())
    history.begin()
    multiprocessing.util.Finalize(None, history.write_last, exitpriority=100)


class _ChildHistory(History):
    """History of a child, which writes its report while it runs.

    A signal handler that writes the report when a pool terminates its workers would not suffice. Python runs
    handlers between two instructions, so a worker that waits for a lock of a killed sibling would never end.
    """

    def __init__(self, since: Snapshot) -> None:
        super().__init__(since=since)
        self._file = _folder() / f"{os.getpid()}-{time.time_ns()}"
        self._next_weight = 1
        self._write(0, "")  # the parent counts the child even if it creates nothing

    def _measure(
        self, newest: Record | None = None, *, with_all_holders: bool = False
    ) -> tuple[LeakReport, int]:
        report, at = super()._measure(newest, with_all_holders=with_all_holders)
        if report.weight >= self._next_weight:
            self._next_weight = int(report.weight * GROWTH) + 1
            self._write(report.weight, self._judged(report, at))
        return report, at

    def write_last(self) -> None:
        """Write the report of the high-water mark, with the holders that are known at the end."""
        with suppress(AttributeError, RuntimeError):  # another thread is changing the objects
            at_the_end = self.look(with_all_holders=True)
            highest = self.high_water_mark()
            report = at_the_end if highest is None else highest[0]
            self._write(report.weight, report)

    def _write(self, weight: int, report: LeakReport | str) -> None:
        text = f"{weight}\n{current_process().name} (process {os.getpid()}) held at most {report}"
        partial = self._file.with_suffix(".partial")
        with suppress(OSError):  # the parent has ended, and its folder is gone
            partial.write_text(text, encoding="utf-8", errors="backslashreplace")
            partial.replace(self._file)


def _folder() -> Path:
    return Path(os.environ[tracking.CHILDREN].partition(":")[2])


def reports() -> list[str]:
    """Return the reports of the children, largest first, and remove them."""
    files = []
    if tracking.CHILDREN in os.environ:
        folder = _folder()
        del os.environ[tracking.CHILDREN]
        files = [file.read_text(encoding="utf-8").partition("\n") for file in folder.glob("*[0-9]")]
        shutil.rmtree(folder, ignore_errors=True)
    by_weight = sorted([(int(weight), text) for weight, _, text in files], reverse=True)
    large = [text for weight, text in by_weight if weight >= _MIN_BYTES]
    texts = large[:_MAX_REPORTS]
    if len(large) > _MAX_REPORTS:
        texts.append(f"{len(large) - _MAX_REPORTS} more children of multiprocessing held less than these")
    small = len(files) - len(large)
    if small:
        more = "more " if texts else ""
        texts.append(
            f"{small} {more}children of multiprocessing held less than {format_bytes(_MIN_BYTES)} each"
        )
    if _obstacle:
        texts.append(
            "children of multiprocessing were not tracked, because their reports need a temporary folder: "
            f"{_obstacle}. Set TMPDIR to a folder that can be written"
        )
    if _untracked:
        counts = ", ".join([f"{count} of {by}" for by, count in sorted(_untracked.items())])
        texts.append(
            f"child processes that were not tracked, because only those of multiprocessing are: {counts}"
        )
    return texts
