"""Compare two threads of a program with one thread.

    python -m benchmarks.user_threads

Prints the time of one thread, and the work per second of two threads divided by that of one. 1 means that the
second thread adds nothing, 2 that it does as much as the first.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import tensor
from scopes import new_dispose_scope

ROUNDS = 5


def in_python() -> None:
    """Add 400,000 numbers in Python."""
    total = 0
    for i in range(400_000):
        total += i


def in_scopes() -> None:
    """Create 10,000 tensors of one element in 1,000 scopes."""
    for _ in range(1_000):
        with new_dispose_scope():
            for _ in range(10):
                tensor.ones((1,))


def small() -> None:
    """Add two tensors of one element 10,000 times."""
    x = tensor.ones((1,))
    for _ in range(10_000):
        x + x


def large() -> None:
    """Compute the exponential of 1,000,000 elements 20 times."""
    x = tensor.ones((1_000_000,))
    for _ in range(20):
        tensor.exp(x)


def seconds(work: Callable[[], None], count: int) -> float:
    """Return the least time in which each of `count` threads does `work` once."""
    least = float("inf")
    for _ in range(ROUNDS):
        start = threading.Barrier(count + 1)

        def run(start: threading.Barrier = start) -> None:
            start.wait()
            work()

        threads = [threading.Thread(target=run) for _ in range(count)]
        for thread in threads:
            thread.start()
        start.wait()
        begin = time.perf_counter()
        for thread in threads:
            thread.join()
        least = min(least, time.perf_counter() - begin)
    return least


def main() -> None:
    """Run all comparisons. Each op has one thread."""
    tensor.set_num_threads(1)
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"Python {sys.version.split()[0]}, the lock is {'on' if is_locked else 'off'}")
    for work in (in_python, in_scopes, small, large):
        one, two = seconds(work, 1), seconds(work, 2)
        what = (work.__doc__ or "").rstrip(".")
        print(f"{what}: one thread {one * 1e3:.1f} ms, two threads {2 * one / two:.2f}")


if __name__ == "__main__":
    main()
