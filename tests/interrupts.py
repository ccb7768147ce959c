"""Interrupts at moments that a test chooses."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
