"""Start the process that prints the report of a program that is killed.

The program keeps the process id that the user started. So signals, ``timeout``, job control, debuggers and
the exit status are those of the program, and a SIGKILL to this id also brings a report. The watcher is not a
child of the program, which may wait for all its children, and it is in a session of its own, so that Ctrl-C
and a signal to the process group do not reach it. The shell may print its prompt before the report.

There is one exception: the program is process 1 of a container, or a child of process 1. When process 1 ends,
the kernel kills all processes of the container, also a watcher that has not printed yet. Then the watcher
takes the place of the program, passes signals on to it as an init does, and ends after the report as the
program did. If a container's memory limit kills all its processes at once (``memory.oom.group``), no process
is left to print: the file of ``--record`` has the record.

The watcher is a new, small interpreter, which executes no code of the program and has no threads. It sleeps
until the program ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from scopes._shared.descriptors import above_streams
from scopes.command import watcher

_ROOT = str(Path(__file__).parents[2])
_MAX_DESCRIPTORS = 2**20


class Watch:
    """The watcher of this process, as the program sees it. Without a watcher, all methods do nothing."""

    def __init__(self, pipe: int | None) -> None:
        self._pid = os.getpid()
        self._pipe = pipe
        self._file = None if pipe is None else _identity(pipe)
        #: Whether the watcher has ended before the program.
        self.is_lost: bool = False

    def tell(self, settings: dict[str, Any]) -> None:
        """Tell the watcher what to print after a kill: see `scopes.command.last_report`."""
        self._write(f"settings {json.dumps(settings)}\n".encode())

    def end(self) -> None:
        """Let the watcher end: the report is written, or there is none."""
        self._write(b"end\n")
        if self._is_ours():
            os.close(self._pipe)  # type: ignore[arg-type]
        self._pipe = None

    def _write(self, line: bytes) -> None:
        if not self._is_ours() or self._pipe is None:
            return
        before = _ignore_sigpipe()
        try:
            os.write(self._pipe, line)
        except OSError:
            self.is_lost = True
        finally:
            if before is not None:
                signal.signal(signal.SIGPIPE, before)

    def _is_ours(self) -> bool:
        """Return whether the pipe is open, and of this process: the program may close all files."""
        if self._pipe is None or os.getpid() != self._pid:
            return False
        with suppress(OSError):
            return _identity(self._pipe) == self._file
        return False

    def _leave(self) -> None:
        """Close the pipe in a forked child: it is open as long as the program runs, and not longer."""
        if self._pipe is not None:
            with suppress(OSError):
                os.close(self._pipe)
            self._pipe = None


def begin_watch(memory: int | None = None) -> Watch:
    """Start a watcher of this process, which must have one thread.

    The watcher has the descriptor `memory` too, under its number. Return a `Watch` without a watcher on
    Windows, and if no process can be started.
    """
    if sys.platform == "win32" or not sys.executable:
        return Watch(None)
    try:
        reading, writing = map(above_streams, os.pipe())
    except OSError:
        return Watch(None)
    try:
        if 1 in (os.getpid(), os.getppid()):
            _begin_around(reading, memory)
        else:
            _begin_beside(reading, memory)
    except OSError:
        os.close(reading)
        os.close(writing)
        return Watch(None)
    os.close(reading)
    watch = Watch(writing)
    os.register_at_fork(after_in_child=watch._leave)
    return watch


def _begin_beside(pipe: int, memory: int | None) -> None:
    program = os.getpid()
    process = -1
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):  # an old kernel
            process = above_streams(os.pidfd_open(program))
    try:
        between = os.fork()
        if between == 0:
            try:
                os.setsid()
                if os.fork() == 0:
                    _become_watcher("beside", program, process, pipe, memory)
            finally:
                os._exit(0)
        os.waitpid(between, 0)
    finally:
        if process >= 0:
            os.close(process)


def _begin_around(pipe: int, memory: int | None) -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    parent = os.getpid()
    try:
        program = os.fork()
    except OSError:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        raise
    if program:
        try:
            _become_watcher("around", program, -1, pipe, memory)
        finally:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]) & 0xFF)
    _end_with(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _become_watcher(way: str, program: int, process: int, pipe: int, memory: int | None) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(null, stream)
    # Only the standard error stream stays open: a reader of the output waits for the program alone.
    after = 3
    for descriptor in sorted({process, pipe, -1 if memory is None else memory} - {-1}):
        os.closerange(after, descriptor)
        os.set_inheritable(descriptor, True)
        after = descriptor + 1
    os.closerange(after, min(os.sysconf("SC_OPEN_MAX"), _MAX_DESCRIPTORS))
    if way == "beside":
        # A service manager sends SIGTERM to all processes of a service. The program alone decides.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISPOSESCOPE_")}
    numbers = [str(program), str(process), str(pipe)]
    words = [sys.executable, "-I", "-S", str(watcher.__file__), way, *numbers, _ROOT]
    os.execve(words[0], words, environment)


def _end_with(parent: int) -> None:
    """Let SIGKILL to the watcher end the program too, since the user sees one program. Linux alone can."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    set_death_signal = 1  # PR_SET_PDEATHSIG
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _ignore_sigpipe() -> Any:
    """Make a write to a closed pipe an error. Return the handler to restore, or None."""
    with suppress(ValueError):  # another thread than the main one: the program has set its own way
        if signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL:
            return signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return None
