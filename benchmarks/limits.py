"""The cost of scopes with limits: an operation on one element, and opening a scope.

``python -m benchmarks.limits`` prints a table.
"""

import time
from collections.abc import Callable
from typing import Any

import tensor
from scopes import new_dispose_scope

REPETITIONS, ROUNDS = 10_000, 15
LIMITS: dict[str, dict[str, Any]] = {
    "no limit": {},
    "`limit`": {"limit": "64 MiB"},
    "`limit` and `max_members`": {"limit": "64 MiB", "max_members": 1000},
}


def _least(work: Callable[[], object]) -> float:
    """Return the least processor time of one repetition, in nanoseconds."""
    found = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found) / REPETITIONS * 1e9


def _operation(options: dict[str, Any]) -> float:
    with new_dispose_scope("benchmark", **options):
        a, b = tensor.ones((1,)), tensor.ones((1,))

        def work() -> None:
            for _ in range(REPETITIONS):
                a + b

        return _least(work)


def _opening(options: dict[str, Any]) -> float:
    def work() -> None:
        for _ in range(REPETITIONS):
            with new_dispose_scope("benchmark", **options):
                pass

    return _least(work)


def main() -> None:
    """Print the table."""
    print("| scope with | ns, `a + b` on one element | ns, open and end |\n|---|---:|---:|")
    for name, options in LIMITS.items():
        print(f"| {name} | {_operation(options):.0f} | {_opening(options):.0f} |")


if __name__ == "__main__":
    main()
