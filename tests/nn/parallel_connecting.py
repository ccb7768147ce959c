"""A worker that is killed while the others of its group connect, for the tests of `nn.parallel` on Ray."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

from nn.parallel.group import Group, Place
from nn.parallel.jobs import ExchangeConfig
from tests.nn.parallel_cluster import files_in_memory, wait_until
from tests.nn.parallel_jobs import wait_for_ray


@dataclass
class KilledWhileOthersConnect(ExchangeConfig):
    """Lets worker 1 be killed, while worker 0 waits for it in the first attempt."""

    #: Notes that it was done.
    once: str = ""

    def connect(self, place: Place, token: str, ranks: tuple[int, ...]) -> Group:
        wait_for_ray()
        if place.rank == 1 and not Path(self.once).exists():
            Path(self.once).touch()
            assert wait_until(lambda: any(token in path.name for path in files_in_memory()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().connect(place, token, ranks)
