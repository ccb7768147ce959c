"""Budgets of training steps: time, bytes and bits against a budget, beside PyTorch's checkpointing.

``python -m benchmarks.budgets`` prints a table: steps within shares of a plain step's peak.

- ``--resident`` compares the resident size of a process with what the budget tells.
- ``--picture FILE`` draws time against budget for a small minGPT, beside checkpointing (PyTorch and ours);
  it needs matplotlib.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from benchmarks import ROOT, attention, peaks, plans
from benchmarks.contenders import OURS, TORCH, Library, library
from benchmarks.networks import TIMING_RATE, Network, training
from scopes.lowlevel import format_bytes
from tensor import memory

Step = Callable[[], Any]
SHARES = (0.8, 0.65, 0.5, 0.4, 0.3)
WAYS = {"recompute": (False, True), "recompute and file": (True, True), "file": (True, False)}
ROUNDS = 3
RATE = TIMING_RATE
PROGRAM = "from benchmarks import budgets; budgets.print_resident({!r}, {!r})"
DRAWN = attention.Sizes(layers=6, heads=6, width=192, length=128, batch=16)
MINGPT = attention.Sizes(layers=6, heads=6, width=384, length=128, batch=16)


def networks() -> dict[str, Callable[[], Step]]:
    """Return what makes each step, by name."""
    wide = Network((784, 2048, 2048, 10), 4096)
    deep = Network((784, *(1024,) * 8, 10), 8192)
    return {
        wide.name: partial(training, library(OURS), wide, "sgd", RATE, weights=wide.weights()),
        deep.name: partial(training, library(OURS), deep, "sgd", RATE, weights=deep.weights()),
        f"minGPT {MINGPT}": partial(attention.training_step, library(OURS), MINGPT, False, RATE),
        "ResNet-18, 256 images of 64 x 64": partial(plans.resnet_step, library(OURS), 256, 64),
    }


def _fresh(make: Callable[[], Step]) -> Step:
    """Return a step that has been run once, which makes the optimizer's state; each call draws the same."""
    library(OURS).xp.manual_seed(0)
    step = make()
    step()
    gc.collect()
    memory.trim()
    return step


def _timed(step: Step, rounds: int) -> tuple[list[Any], float]:
    """Return what a step returns each time, and its least processor time, which is least disturbed."""
    found, seconds = [], []
    for _ in range(rounds):
        start = time.process_time()
        found.append(step())
        seconds.append(time.process_time() - start)
    return found, min(seconds)


class Plain:
    """A training step without a budget: its losses, peak and time."""

    def __init__(self, make: Callable[[], Step], rounds: int = ROUNDS) -> None:
        step = _fresh(make)
        with memory.measure() as used:
            self.losses, self.seconds = _timed(step, rounds)
        self.peak: int = used.peak_bytes


def within(make: Callable[[], Step], plain: Plain, share: float, way: str) -> dict[str, Any] | None:
    """Return the figures of steps within a share of the peak; None where an op alone needs more."""
    has_file, recompute = WAYS[way]
    step = _fresh(make)
    budget = memory.budget(
        int(plain.peak * share), spill=tempfile.gettempdir() if has_file else None, recompute=recompute
    )

    def within_budget() -> Any:
        with budget:
            return step()

    try:
        losses, seconds = _timed(within_budget, len(plain.losses))
    except memory.OutOfMemoryError:
        return None
    done = budget.statistics()
    return {
        "share": share,
        "equal": losses == plain.losses,
        "time": seconds / plain.seconds,
        "peak": done.peak_bytes / plain.peak,
        "recomputed": done.recomputed_bytes / len(losses),
        "spilled": done.spilled_bytes / len(losses),
    }


def print_table(names: Sequence[str], shares: Sequence[float], ways: Sequence[str], rounds: int) -> None:
    """Print a row for each network, share and way."""
    print(
        "| network | peak | budget | way | time / plain | peak / plain | recomputed | to file | same bits |"
    )
    print("|---|---:|---:|---|" + "---:|" * 5)
    for name, make in networks().items():
        if names and not any(part in name for part in names):
            continue
        plain = Plain(make, rounds)
        for share in shares:
            for way in ways:
                start = f"| {name} | {format_bytes(plain.peak)} | {share:.0%} | {way} "
                row = within(make, plain, share, way)
                if row is None:
                    print(f"{start}| does not fit | | | | |", flush=True)
                    continue
                print(
                    f"{start}| {row['time']:.2f} | {row['peak']:.3f} "
                    f"| {format_bytes(int(row['recomputed']))} | {format_bytes(int(row['spilled']))} "
                    f"| {'yes' if row['equal'] else 'NO'} |",
                    flush=True,
                )


# --- The resident size of a process -------------------------------------------------------------------------


def print_resident(name: str, share: float) -> None:
    """Train within a budget in this process, and print bytes as JSON: told, and resident."""
    make = networks()[name]
    peak = Plain(make, 1).peak
    step = _fresh(make)
    base = peaks._status("VmRSS") - memory.statistics().bytes_live
    peaks.CLEAR.write_text("5")  # proc(5): high water starts again
    with memory.budget(int(peak * share), spill=tempfile.gettempdir()) as budget:
        for _ in range(2):
            step()
    told = budget.statistics().peak_bytes
    print(json.dumps({"base": base, "told": told, "resident": peaks._status("VmHWM")}))


def print_residents(names: Sequence[str], share: float = 0.5) -> None:
    """Print for each network the peak of a separate process, its size before, and the reported bytes."""
    print("| network | budget | before | told | resident | resident / (before + told) |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in networks():
        if names and not any(part in name for part in names):
            continue
        used = share if "2048" not in name else 0.95
        command = [sys.executable, "-c", PROGRAM.format(name, used)]
        found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        ratio = found["resident"] / (found["base"] + found["told"])
        sizes = " | ".join(format_bytes(found[key]) for key in ("base", "told", "resident"))
        print(f"| {name} | {used:.0%} | {sizes} | {ratio:.3f} |", flush=True)


# --- Checkpointing ------------------------------------------------------------------------------------------


def _checkpointed(count: int, to: Library) -> Step:
    return attention.training_step(to, DRAWN, False, RATE, checkpointed=count)


def checkpointing(of: str, rounds: int) -> list[tuple[int, float]]:
    """Return the peak and the time of a step with 0, 2, 4 and 6 checkpointed blocks of a small minGPT."""
    found: list[tuple[int, float]] = []
    for count in (0, 2, 4, 6):
        make = partial(_checkpointed, count)
        peak = (peaks.our_peak if of == OURS else peaks.torch_peak)(make)
        step = make(library(of))
        step()
        found.append((peak, _timed(step, rounds)[1]))
        print(f"{of}, {count} blocks: {format_bytes(peak)}, {found[-1][1]:.2f} s", flush=True)
    return found


def draw(path: str, shares: Sequence[float], ways: Sequence[str], rounds: int) -> None:
    """Draw time against budget for a small minGPT, with the checkpointing of both libraries, in one run."""
    from matplotlib.figure import Figure

    make = partial(attention.training_step, library(OURS), DRAWN, False, RATE)
    plain = Plain(make, rounds)
    print(f"plain: {format_bytes(plain.peak)}, {plain.seconds:.2f} s", flush=True)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for way in ways:
        rows = [row for share in shares if (row := within(make, plain, share, way)) is not None]
        for row in rows:
            print(way, row, flush=True)
        axes.plot(
            [1.0, *(r["peak"] for r in rows)], [1.0, *(r["time"] for r in rows)], "o-", label=f"budget: {way}"
        )
    for of in (TORCH, OURS):
        points = checkpointing(of, rounds)
        axes.plot(
            [peak / points[0][0] for peak, _ in points],
            [seconds / points[0][1] for _, seconds in points],
            "s--",
            label="checkpointing of 0, 2, 4, 6 blocks: " + ("PyTorch" if of == TORCH else "ours"),
        )
    axes.set(xlabel="peak, of the library's own plain peak", ylabel="time of a step, of the plain time")
    axes.set_title(f"minGPT {DRAWN}")
    axes.invert_xaxis()
    axes.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="parts of names; all without")
    parser.add_argument("--resident", action="store_true", help="compare resident sizes")
    parser.add_argument(
        "--checkpointing", action="store_true", help="measure checkpointing of both libraries"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw time against budget")
    parser.add_argument("--shares", nargs="*", type=float, default=SHARES, help="budgets, of the plain peak")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="steps, of which the least time counts")
    options = parser.parse_args()
    if options.picture:
        draw(options.picture, options.shares, options.ways, options.rounds)
    elif options.resident:
        print_residents(options.networks, options.shares[0] if len(options.shares) == 1 else 0.5)
    else:
        print_table(options.networks, options.shares, options.ways, options.rounds)


if __name__ == "__main__":
    main()
