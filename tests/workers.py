"""Workers of one machine as plain processes, without Ray: what they share, and nothing else."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import traceback
import uuid
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from nn.parallel import group as groups

# To start takes as long as the machine is busy, in seconds.
_TO_START = 300


def run(count: int, function: Callable[..., Any], *arguments: Any, timeout: float = 300.0) -> list[Any]:
    """Return what ``function(*arguments)`` returns in `count` workers; errors as text, None if killed."""
    spawn = multiprocessing.get_context("spawn")
    token = f"{uuid.uuid4().hex[:8]}.0"
    workers = []
    for rank in range(count):
        here, there = spawn.Pipe(duplex=False)
        place = groups.Place(rank, count, rank, count)
        process = spawn.Process(target=_work, args=(there, place, token, timeout, function, arguments))
        process.start()
        there.close()
        workers.append((process, here))
    results = []
    for process, here in workers:
        try:
            results.append(here.recv() if here.poll(timeout + _TO_START) else "still running")
        except EOFError:
            results.append(None)
        process.join(_TO_START)
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
    return results


def _work(
    to: Connection,
    place: groups.Place,
    token: str,
    timeout: float,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    try:
        ranks = tuple(range(place.local_world_size))
        groups.join(groups.Group(place, token, ranks=ranks, timeout=timeout, to_connect=timeout + _TO_START))
        result = function(*arguments)
    except BaseException:  # noqa: BLE001  # told to the test
        result = traceback.format_exc()
    to.send(result)
    to.close()
    groups.leave()


def require_not_imported(program: str, *modules: str) -> None:
    """Raise unless `program`, in a process of its own, imports none of `modules`."""
    asked = f"import sys; {program}; print([name for name in {modules!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]", run.stdout
