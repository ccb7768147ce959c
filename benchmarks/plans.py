"""Plans of training steps: predicted and measured bytes, and the time in the block beside the pool's.

``python -m benchmarks.plans`` prints a table. The steps in the block and in the pool take turns.
``python -m benchmarks.plans --plot docs/plan.png`` draws a plan; it needs matplotlib.
"""

import gc
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks import attention
from benchmarks.contenders import OURS, Library, library
from benchmarks.networks import Network, training
from scopes.lowlevel import format_bytes
from tensor import memory

Step = Callable[[], object]
ROUNDS, REPETITIONS = 6, 4


def resnet_step(library: Library, batch: int, size: int) -> Step:
    """Return the training step of a ResNet-18 on `batch` images of `size` by `size`."""
    nn: Any = library.nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Identity()
            if stride != 1:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
            return (y + self.shortcut(x)).relu()

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += [Block(inputs, outputs, 1 if inputs == outputs else 2), Block(outputs, outputs, 1)]
        inputs = outputs
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    optimizer = library.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    random = np.random.default_rng(0)
    x = library.array(random.standard_normal((batch, 3, size, size), dtype=np.float32))
    targets = library.array(random.integers(0, 1000, batch))

    def step() -> float:
        with library.scope():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), targets)
            loss.backward()
            optimizer.step()
            return float(loss.item())

    return step


def _steps() -> dict[str, Callable[[], Step]]:
    """Return a function that creates each step, by name."""
    wide = Network((784, 2048, 2048, 10), 256)
    gpt = attention.Sizes(layers=6, heads=6, width=384, length=128, batch=4)
    return {
        f"{wide.name}, adam": partial(training, library(OURS), wide, "adam", 1e-4, weights=wide.weights()),
        f"minGPT {gpt}": partial(attention.training_step, library(OURS), gpt, False, 1e-4),
        "ResNet-18, 4 images of 64 x 64": partial(resnet_step, library(OURS), 4, 64),
    }


def _seconds(step: Step) -> float:
    """Return the processor time of a step, which other programs disturb least."""
    start = time.process_time()
    step()
    return time.process_time() - start


def _row(name: str, make: Callable[[], Step], rounds: int) -> str:
    step = make()
    for _ in range(2):
        step()
    plan = memory.plan(step)
    with memory.measure() as measured:
        step()
    step()
    in_pool = in_block = float("inf")
    system = served = missed = 0
    gc.collect()
    for _ in range(rounds):
        in_pool = min(in_pool, *(_seconds(step) for _ in range(REPETITIONS)))
        before = plan.served_count, plan.missed_count
        with plan.reserved():
            step()  # loads the block's memory into the processor's caches
            start = memory.statistics()
            in_block = min(in_block, *(_seconds(step) for _ in range(REPETITIONS)))
            system += (memory.statistics() - start).reuse_miss_count
        served += plan.served_count - before[0]
        missed += plan.missed_count - before[1]
    return (
        f"| {name} | {plan.allocation_count:,} | {format_bytes(plan.peak_bytes)} "
        f"| {format_bytes(measured.peak_bytes)} | {plan.peak_bytes / measured.peak_bytes:.4f} "
        f"| {format_bytes(plan.lower_bound_bytes)} | {plan.arena_bytes / plan.lower_bound_bytes:.3f} "
        f"| {in_pool * 1e3:.1f} | {in_pool / in_block:.2f} | {served}, {missed} | {system} |"
    )


def draw(path: str) -> None:
    """Draw the plan of a step of ResNet-18 as a PNG file."""
    step = resnet_step(library(OURS), 16, 64)
    step()
    figure = memory.plan(step).plot()
    figure.savefig(path, dpi=90, metadata={"Software": None})


def print_table(names: Sequence[str], rounds: int) -> None:
    """Print a row for each step, or for each step whose name contains one of `names`."""
    print(
        "| step | arrays | peak, planned | peak, measured | ratio | most alive | block / most alive ", end=""
    )
    print("| ms, pool | pool / block | served, missed | from the system |")
    print("|---|" + "---:|" * 10)
    for name, make in _steps().items():
        if not names or any(part in name for part in names):
            print(_row(name, make, rounds), flush=True)


def main() -> None:
    """Print the table, for all steps or for those with the given parts of names. Or draw a plan."""
    if sys.argv[1:2] == ["--plot"]:
        draw(*sys.argv[2:])
        return
    print_table(sys.argv[1:], ROUNDS)


if __name__ == "__main__":
    main()
