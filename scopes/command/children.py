"""Follow the processes that a program under ``disposescope run`` starts, and theirs: each writes a record.

A new Python starts with our ``sitecustomize``, and joins when it imports ``scopes``, PyTorch, JAX or CuPy. A
forked process joins at once, and continues the tracking of its parent: what it inherited counts as the
parent's. A process writes its record to a file whenever its high-water mark has risen by a tenth, and at its
end. So the last record of a killed process is there too. The run reads all records at its end.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing.util
import os
import py_compile
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import current_process, parent_process
from pathlib import Path
from typing import Any

from scopes._shared.sizes import parse_size
from scopes.reports.history import GROWTH, MAX_LINES, History
from scopes.reports.leak_report import LeakReport
from scopes.reports.leaks import snapshot
from scopes.reports.processes import ProcessReport, joined
from scopes.reports.run_record import NoRecordError, RunRecord
from scopes.reports.runs import LEAST_GROWTH, record_of
from scopes.reports.spool import SUFFIX, read_spool, write_spool
from scopes.tracking import tracking
from scopes.tracking.records import Record

_Program = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# The report only counts processes that held fewer bytes than this.
_MIN_BYTES = 64 * 1024
# Files in the folder of the run: what its processes need to know, and why others are not followed, a line for
# each of them.
_SETTINGS, _NOT_FOLLOWED = "settings", "not-followed"
# The beginning of a line for a process that has joined, although its parent has counted it there.
_JOINED = "joined "
# The number of a process in its job, as torchrun and the starters of MPI and Slurm tell it.
_RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


class _ForkKey:
    """Key of the after-fork function: multiprocessing keeps the function as long as this object lives."""


_fork_key = _ForkKey()
# Why there is no folder for the records of children, or "".
_obstacle = ""
_follows_forks = False
# The listeners of this process that a forked child drops, and the record of this process if it is a child.
_listeners: tuple[Any, ...] = ()
_history: _ChildHistory | None = None


def follow_children(depth: int, threshold: int | str = LEAST_GROWTH) -> Path | None:
    """Make the processes below this one write the records that ``report()`` reads. Return the run's folder.

    `threshold` is the growth from which a line is a leak. Without a folder, which is None then, or where it
    can't be written, the processes are not followed, and the report says so.
    """
    global _obstacle
    os.environ.pop(tracking.CHILDREN, None)  # that of another run, which started this one
    try:
        folder = tempfile.mkdtemp(prefix="disposescope-")
    except OSError as error:  # a read-only file system
        _obstacle = _why(error)
        return None
    # Also if the program was not found. In a forked child, a `Finalize` of this process does nothing.
    multiprocessing.util.Finalize(None, shutil.rmtree, (folder, True), exitpriority=-100)
    try:
        start = Path(folder, "start")
        if os.pathsep in folder:
            raise OSError(f"PYTHONPATH can't name {folder!r}, because of the {os.pathsep!r}")
        start.mkdir()
        shutil.copyfile(Path(__file__).with_name("sitecustomize.py"), start / "sitecustomize.py")
        # Here, because PYTHONDONTWRITEBYTECODE would make each process compile it.
        py_compile.compile(str(start / "sitecustomize.py"))
        settings = {"threshold": threshold, "ranks": _ranks()}
        Path(folder, _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")
    except (OSError, py_compile.PyCompileError) as error:  # a full disk
        _obstacle = _why(error)
        return Path(folder)
    os.environ[tracking.CHILDREN] = f"{depth}:{folder}"
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{start}{os.pathsep}{others}" if others else str(start)
    _follow_forks()
    return Path(folder)


def _why(error: Exception) -> str:
    return (
        f"because their records need a temporary folder: {error}. Set TMPDIR to a folder that can be written"
    )


def begin_program() -> None:
    """Note the listeners of the run, which begins the program now. Forked children drop them."""
    global _listeners
    tracker = tracking.current.tracker
    _listeners = () if tracker is None else tracker.listeners


def follow() -> None:
    """Make this process, which has imported ``scopes``, write records, if it is a child of a run."""
    folder = _folder()
    if folder is not None and folder.is_dir():
        try:
            _join(folder)
        except Exception as error:  # noqa: BLE001  # the program must go on
            _note(f"that could not begin: {error!r}")


def _folder() -> Path | None:
    folder = os.environ.get(tracking.CHILDREN, "").partition(":")[2]
    return Path(folder) if folder else None


def _join(folder: Path) -> None:
    """Begin tracking and the record of a new Python."""
    tracking.begin(int(os.environ[tracking.CHILDREN].partition(":")[0]))
    _begin_record(folder)
    _follow_forks()
    obstacle = _flag_of_this_process()
    if obstacle:  # the parent has counted it
        _note(f"{_JOINED}{obstacle}")
    _write_first()


def _follow_forks() -> None:
    global _follows_forks
    if _follows_forks:
        return
    _follows_forks = True
    sys.addaudithook(_count_not_followed)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_begin_after_fork)
    multiprocessing.util.register_after_fork(_fork_key, _begin_process)


def _begin_after_fork() -> None:
    """Begin the record of a forked process. It may run another program at once, so write nothing yet."""
    global _history
    _history = None
    folder = _folder()
    if folder is not None and tracking.current.tracker is not None:
        with suppress(Exception):  # the program must go on
            _begin_record(folder)


def _begin_process(_: _ForkKey) -> None:
    """Write the first and the last record of a process of multiprocessing, which has its name now."""
    if _history is not None and parent_process() is not None:
        with suppress(Exception):
            _write_first()


def _begin_record(folder: Path) -> None:
    global _history, _listeners
    tracker = tracking.current.tracker
    if tracker is None:
        return
    dropped = {id(listener) for listener in _listeners}
    tracker.listeners = tuple([each for each in tracker.listeners if id(each) not in dropped])
    _history = history = _ChildHistory(folder)
    history.begin()
    _listeners = (history,)
    atexit.register(history.write_last)


def _write_first() -> None:
    history = _history
    if history is not None:
        history.write_first()
        # A process of multiprocessing forgets those of before, and runs no functions of `atexit` if forked.
        multiprocessing.util.Finalize(None, history.write_last, exitpriority=100)


class _ChildHistory(History):
    """History of a child, which writes its record while it runs.

    A signal handler that writes the record when a pool terminates its workers would not suffice. Python runs
    handlers between two instructions, so a worker that waits for a lock of a killed sibling would never end.

    Each record is a new file, which replaces the one before. A file in memory would need room for the largest
    record in each of a thousand workers, or end the process where the disk is full.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(since=snapshot())
        self._folder = folder
        self._pid = os.getpid()
        self._file = folder / f"{self._pid}-{time.time_ns()}{SUFFIX}"
        self._next_weight = 1
        self._is_over = False

    def _measure(
        self, newest: Record | None = None, *, with_all_holders: bool = False
    ) -> tuple[LeakReport, int]:
        report, at = super()._measure(newest, with_all_holders=with_all_holders)
        if report.weight >= self._next_weight and not self._is_over:
            self._next_weight = int(report.weight * GROWTH) + 1
            with suppress(Exception):  # the run has ended, and its folder is gone
                self._write((self._judged(report, at), at / 1e9))
        return report, at

    def write_first(self) -> None:
        """Write a record now, so that the run knows of the process even if it creates nothing."""
        if not self.looks:
            self._write((self.look(), self.looks[-1].at / 1e9))

    def write_last(self) -> None:
        """Write the record of the end, with the holders that are known then. Do it once."""
        if self._is_over or os.getpid() != self._pid:
            return
        self._is_over = True
        with suppress(Exception):  # such as RuntimeError: another thread is changing the objects
            if self._file.exists():
                latest = self.look()
                # Nobody asks for the holders of less, and their search takes time.
                is_little = max(latest.weight, self._weight) < _MIN_BYTES
                self._write((latest, self.looks[-1].at / 1e9) if is_little else None, ended="by itself")

    def _write(self, latest: tuple[LeakReport, float] | None, ended: str | None = None) -> None:
        settings = _settings_in(self._folder)
        record = record_of(self, _program(), settings["threshold"], arguments=_arguments(), latest=latest)
        record = replace(
            record,
            parts=tuple([(title, _heaviest_of(report)) for title, report in record.parts]),
            name=_name(),
            rank=_rank(settings["ranks"]),
            ended=ended,
        )
        write_spool(self._file, record.to_json())


def _heaviest_of(report: LeakReport) -> LeakReport:
    return replace(report, rows=report.rows[:MAX_LINES])


def _name() -> str:
    """Return the name of this process for the report."""
    if parent_process() is None:
        return _program()
    worker = getattr(sys.modules.get("torch.utils.data._utils.worker"), "_worker_info", None)
    number = getattr(worker, "id", None)
    return current_process().name if number is None else f"DataLoader worker {number}"


def _program() -> str:
    arguments = getattr(sys, "argv", [])
    name = Path(arguments[0]).name if arguments and arguments[0] else "-"
    return f"python {name}" if name in ("-", "-c", "-m") else name


def _arguments() -> list[str]:
    return [str(each) for each in getattr(sys, "argv", [])[1:]]


def _ranks() -> dict[str, str]:
    """Return the variables of the environment that tell the number of this process in its job."""
    return {name: value for name in _RANKS if (value := os.environ.get(name, "")).isdecimal()}


def _rank(of_the_run: Mapping[str, str]) -> int | None:
    """Return the number of this process. What the process of the run has too is the number of the run."""
    values = [int(value) for name, value in _ranks().items() if of_the_run.get(name) != value]
    return values[0] if values else None


def report(of_the_run: RunRecord) -> tuple[ProcessReport | None, list[str]]:
    """Return what ``report_in()`` returns for this run, and remove the records."""
    folder = _folder()
    if folder is None:
        return None, [f"child processes were not followed, {_obstacle}"] if _obstacle else []
    found = report_in(folder, of_the_run)
    del os.environ[tracking.CHILDREN]
    shutil.rmtree(folder, ignore_errors=True)
    return found


def report_in(folder: Path, of_the_run: RunRecord) -> tuple[ProcessReport | None, list[str]]:
    """Return one report of the run's own process and those below it, and texts that follow it.

    The report is None if no process below it held anything worth a table. `folder` has the records.
    """
    found = []
    not_followed: Counter[str] = Counter()
    for file in sorted(folder.glob(f"[0-9]*{SUFFIX}")):
        try:
            found.append(RunRecord.from_dict(json.loads(read_spool(file))))
        except (OSError, NoRecordError, ValueError):  # such as the record of a later version
            not_followed["with a record that can't be read"] += 1
    with suppress(OSError):
        text = (folder / _NOT_FOLLOWED).read_text(encoding="utf-8", errors="replace")
        for reason in text.splitlines():
            not_followed[reason.removeprefix(_JOINED)] += -1 if reason.startswith(_JOINED) else 1
    made, texts = None, []
    if found:
        threshold: int | str = LEAST_GROWTH
        with suppress(OSError, ValueError):
            threshold = _settings_in(folder)["threshold"]
        made = joined([of_the_run, *found], _MIN_BYTES, parse_size(threshold))
        if made.verdict:
            texts.append(made.verdict)
    reasons = [f"{count} {reason}" for reason, count in sorted(not_followed.items()) if count > 0]
    if reasons:
        texts.append(f"child processes that were not followed: {', '.join(reasons)}")
    return made if made is not None and made.rows else None, texts


def _settings_in(folder: Path) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
    return settings


def _note(reason: str) -> None:
    """Tell the run why a process is not followed."""
    folder = _folder()
    if folder is None:
        return
    with suppress(OSError), (folder / _NOT_FOLLOWED).open("ab", buffering=0) as file:
        file.write(f"{reason}\n".encode())


def _count_not_followed(event: str, arguments: tuple[Any, ...]) -> None:
    """Count the runs of Python that can't join: without our start, or without the environment of the run."""
    if event != "subprocess.Popen":
        return
    with suppress(Exception):  # the program must go on
        executable, command, _, environment = arguments
        if not program_of(executable, command).name.startswith("python"):
            return
        reason = _flag_of(command) or _missing_in(os.environ if environment is None else environment)
        if reason:
            _note(reason)


def _missing_in(environment: Mapping[Any, Any]) -> str:
    values = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    folder = _folder()
    if folder is None:
        return ""
    if values.get(tracking.CHILDREN) != os.environ[tracking.CHILDREN]:
        return f"with an environment without {tracking.CHILDREN}"
    if str(folder / "start") not in values.get("PYTHONPATH", "").split(os.pathsep):
        return "with a PYTHONPATH of its own"
    return ""


def _flag_of(command: _Program | Sequence[_Program]) -> str:
    """Return the options of a command line with which Python ignores PYTHONPATH or our start; "" for none."""
    if isinstance(command, str):
        arguments = shlex.split(command)
    elif isinstance(command, bytes | os.PathLike):
        arguments = []
    else:
        arguments = [os.fsdecode(word) for word in command]
    return _told(_letters_of(arguments[1:]))


def _letters_of(arguments: list[str]) -> set[str]:
    """Return the letters of Python's own options, which end at the program."""
    found: set[str] = set()
    each = iter(arguments)
    for word in each:
        if not word.startswith("-") or word in ("-", "--"):
            break
        if word.startswith("--"):
            if word == "--check-hash-based-pycs":
                next(each, None)
            continue
        for place, letter in enumerate(word[1:], 2):
            if letter in "cm":
                return found
            if letter in "WX":
                if place == len(word):
                    next(each, None)
                break
            found.add(letter)
    return found


def _told(letters: set[str]) -> str:
    hindering = "I" if "I" in letters else "".join(sorted(letters & {"E", "S"}))
    return f"with -{hindering}" if hindering else ""


def _flag_of_this_process() -> str:
    flags = {"I": sys.flags.isolated, "E": sys.flags.ignore_environment, "S": sys.flags.no_site}
    return _told({letter for letter, is_set in flags.items() if is_set})


def program_of(executable: _Program | None, command: _Program | Sequence[_Program]) -> Path:
    """Return the program that ``subprocess`` starts."""
    if executable is not None:
        return Path(os.fsdecode(executable))
    # On Windows, the command can be one string, with quotes around a path that has spaces.
    if isinstance(command, str):
        quote, begin = ('"', 1) if command.startswith('"') else (" ", 0)
        return Path(command[begin:].partition(quote)[0])
    return Path(os.fsdecode(command if isinstance(command, bytes | os.PathLike) else command[0]))
