"""Interrupts at moments that a test chooses."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable


class Interrupt(BaseException):
    """Raised at any moment, as by Ctrl-C."""


def interrupted_at(event: int, run: Callable[[], object], error: type[BaseException] = Interrupt) -> bool:
    """Raise `error` in `run` where the interpreter looks for signals: at calls, and at returns from C.

    No garbage is collected meanwhile: calls inside of that would count too, at some runs and not at others.
    """
    seen = 0
    was_on = gc.isenabled()
    gc.disable()

    def look(frame: object, kind: str, argument: object) -> None:
        nonlocal seen
        if kind in ("call", "c_return"):
            seen += 1
            if seen == event:
                raise error

    try:
        sys.setprofile(look)
        run()
    except error:
        return True
    finally:
        sys.setprofile(None)
        if was_on:
            gc.enable()
    return False
