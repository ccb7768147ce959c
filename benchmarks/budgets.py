"""Budgets of training steps: time, bytes and bits against a budget, beside PyTorch's checkpointing.

``python -m benchmarks.budgets`` prints a table: steps within shares of a plain step's peak.

- ``--resident`` compares the resident size of a process with the figures of the budget.
- ``--least`` looks for the least share in which a step fits.
- ``--in-backward`` looks for it with a small batch, for an optimizer that steps at the end, and in backward.
- ``--products`` compares products of blocks of rows with whole products: how many elements differ in bits.
- ``--picture FILE`` draws time against budget for a minGPT, beside checkpointing (PyTorch and ours);
  it needs matplotlib.
- ``--report FOLDER`` does all of it for a 784-2048-2048-10, a minGPT and a ResNet-18, with their plans, and
  draws both pictures into the folder: some 10 minutes on a machine without other load.
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
from benchmarks.networks import TIMING_RATE, Network, model_of, optimizer_of, training
from scopes.lowlevel import format_bytes
from tensor import memory

Step = Callable[[], Any]
SHARES = (0.8, 0.65, 0.5, 0.4, 0.3)
WAYS = {"recompute": (False, True), "recompute and file": (True, True), "file": (True, False)}
ROUNDS = 3
RATE = TIMING_RATE
LEAST_STEP = 0.025
PROGRAM = "from benchmarks import budgets; budgets.print_resident({!r}, {!r})"
MINGPT = attention.Sizes(layers=6, heads=6, width=384, length=128, batch=16)


def networks() -> dict[str, Callable[[], Step]]:
    """Return a function that creates each step, by name."""
    wide = Network((784, 2048, 2048, 10), 4096)
    deep = Network((784, *(1024,) * 8, 10), 8192)
    return {
        wide.name: partial(training, library(OURS), wide, "sgd", RATE, weights=wide.weights()),
        deep.name: partial(training, library(OURS), deep, "sgd", RATE, weights=deep.weights()),
        f"minGPT {MINGPT}": partial(attention.training_step, library(OURS), MINGPT, False, RATE),
        "ResNet-18, 256 images of 64 x 64": partial(plans.resnet_step, library(OURS), 256, 64),
    }


def _fresh(make: Callable[[], Step]) -> Step:
    """Return a step after its first run, which makes the optimizer's state. Each call uses the same seed."""
    library(OURS).xp.manual_seed(0)
    step = make()
    step()
    gc.collect()
    memory.trim()
    return step


def _timed(step: Step, rounds: int) -> tuple[list[Any], float, float]:
    """Return the results of a step, its least time, and its least processor time.

    Compare processor times where other programs run.
    """
    found, seconds, processor = [], [], []
    for _ in range(rounds):
        start, processor_start = time.perf_counter(), time.process_time()
        found.append(step())
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - processor_start)
    return found, min(seconds), min(processor)


class Plain:
    """A training step without a budget: its losses, peak and time."""

    def __init__(self, make: Callable[[], Step], rounds: int = ROUNDS) -> None:
        step = _fresh(make)
        with memory.measure() as used:
            self.losses, self.seconds, self.processor = _timed(step, rounds)
        self.peak: int = used.peak_bytes


def within(make: Callable[[], Step], plain: Plain, share: float, way: str) -> dict[str, Any] | None:
    """Return the figures of steps within a share of the peak; None if one op alone needs more."""
    has_file, recompute = WAYS[way]
    step = _fresh(make)
    budget = memory.budget(
        int(plain.peak * share), spill=tempfile.gettempdir() if has_file else None, recompute=recompute
    )

    def within_budget() -> Any:
        with budget:
            return step()

    try:
        losses, seconds, processor = _timed(within_budget, len(plain.losses))
    except memory.OutOfMemoryError:
        return None
    done = budget.statistics()
    return {
        "share": share,
        "equal": losses == plain.losses,
        "time": seconds / plain.seconds,
        "processor": processor / plain.processor,
        "peak": done.peak_bytes / plain.peak,
        "recomputed": done.recomputed_bytes / len(losses),
        "spilled": done.spilled_bytes / len(losses),
    }


def print_table(names: Sequence[str], shares: Sequence[float], ways: Sequence[str], rounds: int) -> None:
    """Print a row for each network, share and way."""
    print(
        "| network | peak | s | budget | way | time / plain | processor / plain | peak / plain | recomputed "
        "| to file | same bits |"
    )
    print("|---|---:|---:|---:|---|" + "---:|" * 6)
    for name, make in networks().items():
        if names and not any(part in name for part in names):
            continue
        plain = Plain(make, rounds)
        for share in shares:
            for way in ways:
                start = f"| {name} | {format_bytes(plain.peak)} | {plain.seconds:.2f} | {share:.0%} | {way} "
                row = within(make, plain, share, way)
                if row is None:
                    print(f"{start}| does not fit | | | | | |", flush=True)
                    continue
                print(
                    f"{start}| {row['time']:.2f} | {row['processor']:.2f} | {row['peak']:.3f} "
                    f"| {format_bytes(int(row['recomputed']))} | {format_bytes(int(row['spilled']))} "
                    f"| {'yes' if row['equal'] else 'NO'} |",
                    flush=True,
                )


def _least(make: Callable[[], Step], plain: Plain) -> tuple[float, dict[str, Any] | None]:
    """Return the least share of the plain peak in which steps fit, and the figures there."""
    low, high = 0, round(1 / LEAST_STEP)
    row = None
    while high - low > 1:
        middle = (low + high) // 2
        found = within(make, plain, middle * LEAST_STEP, "recompute and file")
        if found is None:
            low = middle
        else:
            high, row = middle, found
    return high * LEAST_STEP, row


def print_least(names: Sequence[str]) -> None:
    """Print for each network the least share of its peak, in steps of 2.5%, and the time there."""
    print("| network | least budget | MiB | time / plain | processor / plain |")
    print("|---|---:|---:|---:|---:|")
    for name, make in networks().items():
        if names and not any(part in name for part in names):
            continue
        plain = Plain(make, 1)
        share, row = _least(make, plain)
        times = "| |" if row is None else f"{row['time']:.2f} | {row['processor']:.2f} |"
        print(f"| {name} | {share:.1%} | {share * plain.peak / 2**20:.0f} | {times}", flush=True)


def _in_backward(network: Network, name: str) -> Step:
    """Return a training step with an optimizer for each parameter, which steps when its gradient is there."""
    to = library(OURS)
    model = model_of(to, network, network.weights())

    def update(optimizer: Any, _: Any) -> None:
        optimizer.step()
        optimizer.zero_grad()

    for parameter in model.parameters():
        optimizer = optimizer_of(to, [parameter], name, RATE)
        parameter.register_post_accumulate_grad_hook(partial(update, optimizer))
    inputs, targets = map(to.array, network.data())

    def step() -> float:
        with to.scope():
            loss = to.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            return float(loss.item())

    return step


def print_in_backward() -> None:
    """Print the least shares of the plain peak in which steps fit."""
    print("| network | peak | step at the end | steps in backward | processor / plain | same bits |")
    print("|---|---:|---:|---:|---:|---|")
    for batch in (256, 512):
        for name in ("adam", "momentum"):
            network = Network((784, 2048, 2048, 10), batch)
            at_end = partial(training, library(OURS), network, name, RATE, weights=network.weights())
            plain = Plain(at_end, 2)
            end, _ = _least(at_end, plain)
            least, row = _least(partial(_in_backward, network, name), plain)
            figures = (
                "| |" if row is None else f"{row['processor']:.2f} | {'yes' if row['equal'] else 'NO'} |"
            )
            start = f"| {network.name}, {name} | {format_bytes(plain.peak)}"
            print(f"{start} | {end:.1%} | {least:.1%} | {figures}", flush=True)


def print_products() -> None:
    """Print the share of elements that differ between whole products and products of blocks of rows."""
    to = library(OURS)
    to.xp.manual_seed(0)
    print("| product | rows of a block | different elements |")
    print("|---|---:|---:|")
    for rows, inner, columns in ((4096, 2048, 2048), (2048, 4096, 2048), (256, 2048, 2048)):
        a, b = to.xp.randn(rows, inner), to.xp.randn(inner, columns)
        whole = a @ b
        for block in (64, 256, 512, 1024):
            if block >= rows:
                continue
            parts = to.xp.cat([a[start : start + block] @ b for start in range(0, rows, block)])
            share = (parts != whole).sum().item() / (rows * columns)
            print(f"| {rows} x {inner} by {inner} x {columns} | {block} | {share:.1%} |", flush=True)


# --- The resident size of a process -------------------------------------------------------------------------


def print_resident(name: str, share: float) -> None:
    """Train within a budget in this process. Print its reported bytes and the resident size as JSON."""
    make = networks()[name]
    peak = Plain(make, 1).peak
    step = _fresh(make)
    base = peaks._status("VmRSS") - memory.statistics().bytes_live
    peaks.CLEAR.write_text("5", encoding="utf-8")  # proc(5): reset the high-water mark
    with memory.budget(int(peak * share), spill=tempfile.gettempdir()) as budget:
        for _ in range(2):
            step()
    told = budget.statistics().peak_bytes
    figures = {"base": base, "told": told, "reserved": budget.statistics().peak_reserved_bytes}
    print(json.dumps({**figures, "resident": peaks._status("VmHWM")}))


def print_residents(names: Sequence[str], share: float = 0.5) -> None:
    """Print for each network the peak of a separate process, its size before, and the reported bytes."""
    print(
        "| network | budget | before | peak_bytes | peak_reserved_bytes | resident "
        "| resident / (before + peak_reserved_bytes) |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in networks():
        if names and not any(part in name for part in names):
            continue
        used = share if "2048" not in name else 0.8
        command = [sys.executable, "-c", PROGRAM.format(name, used)]
        found = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
        ratio = found["resident"] / (found["base"] + found["reserved"])
        sizes = " | ".join(format_bytes(found[key]) for key in ("base", "told", "reserved", "resident"))
        print(f"| {name} | {used:.0%} | {sizes} | {ratio:.3f} |", flush=True)


# --- Checkpointing ------------------------------------------------------------------------------------------


def _checkpointed(count: int, to: Library) -> Step:
    return attention.training_step(to, MINGPT, False, RATE, checkpointed=count)


def checkpointing(of: str, rounds: int) -> list[tuple[int, float]]:
    """Return the peak and the time of a step with 0, 2, 4 and 6 checkpointed blocks of a minGPT."""
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
    """Draw time against budget for a minGPT, with the checkpointing of both libraries, in one run."""
    from matplotlib.figure import Figure

    make = partial(attention.training_step, library(OURS), MINGPT, False, RATE)
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
    axes.set_title(f"minGPT {MINGPT}")
    axes.invert_xaxis()
    axes.legend()
    figure.savefig(path, dpi=110)


def report(folder: str, rounds: int) -> None:
    """Print and draw all figures of the guide."""
    names = ("2048", "minGPT", "ResNet")
    both = ("recompute and file", "recompute")
    for title, run in (
        ("plans", partial(plans.print_table, (), plans.ROUNDS)),
        ("budgets", partial(print_table, names, (0.5, 0.3), both, rounds)),
        ("the least budget", partial(print_least, ("2048", "ResNet"))),
        ("resident sizes", partial(print_residents, names)),
        ("picture", partial(draw, f"{folder}/budgets_mingpt.png", SHARES, both, rounds)),
        ("plan.png", partial(plans.draw, f"{folder}/plan.png")),
    ):
        start = time.perf_counter()
        print(f"## {title}", flush=True)
        run()
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)


def main() -> None:
    """Run the selected measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="*", help="parts of names (default: all)")
    parser.add_argument("--resident", action="store_true", help="compare resident sizes")
    parser.add_argument(
        "--checkpointing", action="store_true", help="measure checkpointing of both libraries"
    )
    parser.add_argument("--least", action="store_true", help="look for the least budget")
    parser.add_argument("--in-backward", action="store_true", help="look for it with steps in backward")
    parser.add_argument("--products", action="store_true", help="compare products of blocks of rows")
    parser.add_argument("--report", metavar="FOLDER", help="print and draw all")
    parser.add_argument("--picture", metavar="FILE", help="draw time against budget")
    parser.add_argument("--shares", nargs="*", type=float, default=SHARES, help="budgets, of the plain peak")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="steps, of which the least time counts")
    options = parser.parse_args()
    if options.report:
        report(options.report, options.rounds)
    elif options.least:
        print_least(options.networks)
    elif options.products:
        print_products()
    elif options.in_backward:
        print_in_backward()
    elif options.picture:
        draw(options.picture, options.shares, options.ways, options.rounds)
    elif options.resident:
        print_residents(options.networks, options.shares[0] if len(options.shares) == 1 else 0.5)
    else:
        print_table(options.networks, options.shares, options.ways, options.rounds)


if __name__ == "__main__":
    main()
