"""Threads of tests that change as often as they can."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from threading import Thread

# As a free-threaded Python 3.14 does, also with its lock on: a thread starts in the context of its parent.
NEW_THREADS_INHERIT_CONTEXT = bool(getattr(sys.flags, "thread_inherit_context", False))


def run_at_once(threads: Iterable[Thread], *, switch_after: float = 1e-5) -> None:
    """Start the threads and wait for all; meanwhile each has `switch_after` seconds at a time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(switch_after)
    try:
        running = list(threads)
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
