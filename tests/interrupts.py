"""Interrupts at moments that a test chooses."""

from __future__ import annotations

import gc
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


class Interrupt(BaseException):
    """Raised at any moment, as by Ctrl-C."""


@contextmanager
def garbage_waits() -> Iterator[None]:
    """Collect no garbage meanwhile.

    The collector may come at any call, and calls others then: Hypothesis has it call a function of its own.
    Python drops what is raised there, and the interrupt would be lost.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def interrupted_at(event: int, run: Callable[[], object], error: type[BaseException] = Interrupt) -> bool:
    """Raise `error` in `run` where the interpreter looks for signals: at calls, and at returns from C."""
    seen = 0

    def look(frame: object, kind: str, argument: object) -> None:
        nonlocal seen
        if kind in ("call", "c_return"):
            seen += 1
            if seen == event:
                raise error

    with garbage_waits():
        try:
            sys.setprofile(look)
            run()
        except error:
            return True
        finally:
            sys.setprofile(None)
    return False


def interrupt_at_random_moments(
    count: int,
    run: Callable[[], object],
    check: Callable[[], object],
    error: type[BaseException] = Interrupt,
) -> None:
    """Let an alarm raise `error` at random moments of `run` until it has stopped `count` runs; check each."""

    def ring(number: int, frame: object) -> None:
        raise error

    moments = random.Random(0)
    stopped = tried = 0
    before = signal.signal(signal.SIGALRM, ring)
    try:
        while stopped < count:
            tried += 1
            assert tried < 100 * count
            with garbage_waits():
                try:
                    signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-5, 2e-2))
                    run()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except error:
                    stopped += 1
            check()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def kill_when_it_spills(program: str, folder: Path) -> None:
    """Run `program`, which prints "spilling" when its file in `folder` has values, and kill it there."""
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"spilling\n"
        child.kill()
    assert child.returncode == -signal.SIGKILL
    assert list(folder.iterdir()) == []
