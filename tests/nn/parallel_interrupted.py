"""A program that is interrupted while it runs a job: ``ADDRESS MOMENT FOLDER``.

Not in the test's own process, whose Ctrl-C pytest has a use for.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import ray

from nn import parallel
from tests.nn import parallel_jobs as jobs
from tests.nn.parallel_cluster import nothing_left_behind, run, wait_until


def interrupt(running: Path, seconds: float, is_later: bool) -> None:
    """Press Ctrl-C so many seconds after the job was started, or after its workers have begun to train."""
    if is_later and not wait_until(running.exists):
        os._exit(1)
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGINT)


def main(address: str, moment: int, folder: Path) -> None:
    """Be interrupted, then look for what is left, and run another job."""
    # Where the tests run in the background it is ignored, and children take that over.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ray.init(address, logging_level="error", log_to_driver=False)
    numbers = np.random.default_rng(moment)
    is_later = moment % 2 == 0
    running = folder / "running"
    seconds = float(numbers.uniform(0, 1 if is_later else 4))
    timer = threading.Thread(target=interrupt, args=(running, seconds, is_later))
    # All that Ray imports for a job is here then: what was interrupted can't always be imported again.
    run(jobs.train, {"steps": 1}, folder / "first")
    with nothing_left_behind():
        try:
            timer.start()
            run(jobs.train_for_ever, {"running": str(running)}, folder / "interrupted")
        except BaseException as error:  # noqa: BLE001  # Ray makes a SystemExit of some interrupts
            sys.stdout.write(f"interrupted: {error!r:.300}\n")
        else:
            raise AssertionError("the job has no end, and yet it ended")
        timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with nothing_left_behind():
        result = run(jobs.train, {"steps": 5}, folder / "next")
    assert result.metrics["step"] == 5
    assert parallel.statistics().live_count == 0
    sys.stdout.write("nothing is left, and the next job ends right\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
