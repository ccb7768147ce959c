"""The part of ``disposescope attach`` that runs inside the process, on a thread of its own.

It sends what lives now, tracks what the program creates for a while, sends the growth by line, and undoes
all that it did. It enters no mode of PyTorch on the program's threads: a block that is open there, such as
``with torch.device(...):``, would remove it instead of its own mode. It reads the notes of allocations, which
exist for all threads, several times a second.
"""

from __future__ import annotations

import atexit
import json
import linecache
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any, TypeVar

from scopes.core.scope import settle
from scopes.reports.history import History
from scopes.reports.leaks import leaks, snapshot
from scopes.reports.living import LivingReport, living
from scopes.reports.runs import record_of
from scopes.tracking import tracking

# The exit status of the command if another attach is in progress.
BUSY = 8
# The program's own words for the file of a process without one.
_INTERACTIVE = "python"
# Seconds between two reads of the notes of allocations, and the number of looks of an attach.
_PERIOD = 0.25
_LOOKS = 32
# Seconds that the exit of the program waits for the report.
_PATIENCE = 20.0
_FAILURES = (AttributeError, RuntimeError)  # another thread changed the objects meanwhile

_ATTEMPTS = 4

R = TypeVar("R")

_session: _Session | None = None
_free = threading.Lock()


def attend(connection: socket.socket, options: dict[str, Any]) -> None:
    """Answer the command at the other end of `connection`, and leave the process as it was.

    Parameters
    ----------
    connection
        A connected socket. Each message is a line of JSON.
    options
        ``seconds`` to track for, the ``threshold`` of a leak, the ``depth`` of lines, and the ``address`` of
        the socket, in a folder that is removed at the end.
    """
    global _session
    free = _free
    if not free.acquire(blocking=False):
        _send(connection, status=BUSY, error="another `disposescope attach` is in progress in this process")
        return
    session = _session = _Session(connection, options)
    try:
        session.run()
    finally:
        _session = None
        free.release()


def _leave_in_child() -> None:
    """End the attach in a forked child, which has no thread for it."""
    global _free, _session
    session, _session = _session, None
    _free = threading.Lock()
    if session is not None:
        session.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_child)


def _send(connection: socket.socket, **message: object) -> None:
    # Without the flag, a broken connection sends SIGPIPE, of which some programs die.
    connection.sendall(f"{json.dumps(message)}\n".encode(), getattr(socket, "MSG_NOSIGNAL", 0))


class _Session:
    """One attach."""

    def __init__(self, connection: socket.socket, options: dict[str, Any]) -> None:
        self._connection = connection
        self._seconds: float = options["seconds"]
        self._threshold: str = options["threshold"]
        self._depth: int = options["depth"]
        self._folder = os.path.dirname(options["address"])  # noqa: PTH120  # pathlib adds nothing here
        # Undoes the steps so far, the last one first.
        self._undo = ExitStack()
        # Whether the program ends, and whether the report is written.
        self._is_program_ending = False
        self._has_left = threading.Event()

    def run(self) -> None:
        connection = self._connection
        if hasattr(socket, "SO_NOSIGPIPE"):  # macOS, which has no flag for it
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_NOSIGPIPE, 1)
        atexit.register(self._wait_at_exit)
        self._undo.callback(_forget_sources, set(linecache.cache))
        try:
            self._report()
        except OSError:
            pass  # the command has gone
        except Exception as error:  # noqa: BLE001  # the program must not see it
            with suppress(OSError):
                _send(connection, status=1, error=f"the report failed: {type(error).__name__}: {error}")
        faults = self._leave()
        # The command removes it, unless it was killed.
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(OSError):
            _send(connection, left=True, faults=faults)
        self._has_left.set()
        atexit.unregister(self._wait_at_exit)  # last: the program may end now

    def _report(self) -> None:
        began = time.monotonic()
        first = _retried(living)
        took = time.monotonic() - began
        unknown = "The lines that created them are unknown: that was before the attach."
        text = f"{_about()}\n\nWhat lives now:\n{first}\n\n{unknown} The search took {took:.2g} s."
        if tracking.current.tracker is not None:
            text += f"\n\nThe program tracks its tensors itself. By line:\n{leaks()}"
        _send(self._connection, text=text)
        if self._seconds:
            self._grow(first)

    def _grow(self, first: LivingReport) -> None:
        """Track for some time, and send the growth."""
        history = self._track()
        began = time.monotonic()
        next_look = period = self._seconds / _LOOKS
        self._connection.settimeout(min(_PERIOD, period))
        while (passed := time.monotonic() - began) < self._seconds and not self._is_program_ending:
            try:
                if not self._connection.recv(1):
                    break  # the command asks for the report now
            except TimeoutError:
                pass
            with suppress(*_FAILURES):
                settle()
                if passed >= next_look:
                    next_look = passed + period
                    history.look()
        self._connection.settimeout(None)
        why = "The program ends after" if self._is_program_ending else "After"
        passed = time.monotonic() - began
        name = "The program"
        record = _retried(lambda: record_of(history, name, self._threshold))
        texts = [f"{why} {passed:.3g} s. What was created since, and is alive, by line:"]
        for title, report in record.parts:
            texts.append(f"{title.removeprefix(f'{name} has ended.').strip()}\n{report}".strip())
        texts.append(record.verdict)
        change = _retried(living).since(first)
        texts.append(f"Change since the attach, by type:\n{change}")
        texts.append(_unwatched())
        _send(self._connection, text="\n\n".join(texts))

    def _track(self) -> History:
        tracker = tracking.current.tracker
        if tracker is not None:
            self._undo.callback(setattr, tracker, "depth", tracker.depth)
        owning = _owning()
        # Whether the program makes scopes own or track PyTorch's tensors itself.
        had_keepers = owning is not None and owning.KEEPERS.mark() is not None
        if owning is not None:
            if not had_keepers:
                self._undo.callback(_remove_adapter, owning)
            watching = owning.watching()
            watching.__enter__()
            self._undo.callback(watching.__exit__, None, None, None)
        made = tracking.begin(self._depth, is_following=False)
        self._undo.callback(tracking.end, is_following=False)
        if owning is not None and not had_keepers:
            self._undo.callback(_forget_records, made, made.serial)
        history = History(since=snapshot())
        history.begin()
        self._undo.callback(history.end)
        return history

    def _leave(self) -> list[str]:
        """Undo everything, and return the errors as texts."""
        faults: list[str] = []
        steps = self._undo
        while True:
            try:
                steps.close()
            except Exception as error:  # noqa: BLE001  # the other steps are done nevertheless
                faults.append(f"{type(error).__name__}: {error}")
                continue
            return faults

    def _wait_at_exit(self) -> None:
        """Let the thread of the attach write its report before the interpreter exits."""
        self._is_program_ending = True
        self._has_left.wait(_PATIENCE)

    def abandon(self) -> None:
        """Leave a forked child, without an answer: the parent gives it."""
        with suppress(OSError):
            self._connection.close()
        self._leave()
        atexit.unregister(self._wait_at_exit)


def _retried(report: Callable[[], R]) -> R:
    """Return a report, which may fail a few times because other threads change what it looks at."""
    for _ in range(_ATTEMPTS):
        with suppress(*_FAILURES):
            return report()
    return report()


def _about() -> str:
    """Return what the process is: its program, its Python and its libraries."""
    main = getattr(sys.modules.get("__main__"), "__file__", None) or _INTERACTIVE
    names = [
        f"{name} {version}"
        for name in ("torch", "jax", "tensor")
        if (version := getattr(sys.modules.get(name), "__version__", None)) is not None
    ]
    python = sys.version.split()[0]
    return f"process {os.getpid()}: {main}, {', '.join([f'Python {python}', *names])}"


def _unwatched() -> str:
    """Return what this report can't know."""
    texts = ["tensors that the program made before the attach"]
    if "torch" in sys.modules:
        owning = _owning()
        if owning is not None and owning.can_note:
            texts.append(f"those of PyTorch that live for less than {_PERIOD:.2g} s")
            texts.append("operations in place that extend the graph of an older tensor (total += loss)")
        else:
            texts.append("those of PyTorch, whose installed version does not report allocations")
    if "jax" in sys.modules:
        texts.append("arrays of JAX")
    hook = " and a hook for new classes of PyTorch's tensors" if "torch" in sys.modules else ""
    return (
        f"Not in the table by line: {'; '.join(texts)}. The change by type counts all that lives. The "
        f"modules of disposescope{hook} stay in the process; everything else of the attach is undone."
    )


def _owning() -> Any:
    """Return the module that tracks PyTorch's tensors, or None if the program has not imported PyTorch."""
    torch = sys.modules.get("torch")
    is_loading = getattr(getattr(torch, "__spec__", None), "_initializing", False)
    return None if torch is None or is_loading else import_module("scopes.adapters.torch.owning")


def _forget_sources(known: set[str]) -> None:
    for name in set(linecache.cache) - known:
        linecache.cache.pop(name, None)


def _forget_records(tracker: Any, serial: int) -> None:
    """Let go of the tensors of PyTorch that were tracked after `serial`, and note no others."""
    foreign = import_module("scopes.adapters.foreign")
    foreign.suspend_births(True)
    foreign.discard_births()
    for record in list(tracker.records.values()):
        x = record() if record.serial > serial else None
        if x is not None:
            foreign.forget(x)


def _remove_adapter(owning: Any) -> None:
    """Undo what the adapter of PyTorch leaves in place after its last block."""
    foreign = import_module("scopes.adapters.foreign")
    foreign.suspend_births(False)
    owning.KEEPERS.end()
    foreign.include_attributes()
    import_module("scopes.adapters.torch.noting").forget_compile_callbacks()
