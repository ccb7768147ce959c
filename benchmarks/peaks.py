"""Peak memory of a training step: live bytes, and the high water of a process of its own.

One program trains with both libraries: PyTorch's, with its imports changed. A peak is that of the third step,
when gradients of the last one and the optimizer's state are there; it includes parameters, data and state.

Ours is what ``memory.measure`` tells, with every array counted, however small. PyTorch's is the running sum
of what its profiler says was allocated and freed, from before the model was made. High water is what the
system says (``VmHWM``, Linux only) above the memory of a process that has trained a tiny network before: it
counts what is cached, in our pool or in the C library, and the buffers of BLAS.
"""

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile, record_function

import nn
import tensor
from benchmarks.harness import OURS, TORCH, Case, Timer
from scopes import new_dispose_scope
from tensor import memory

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "from benchmarks import peaks; peaks.print_high_water({!r}, {!r})"
STATUS = Path("/proc/self/status")
RATE = 1e-4
STEPS = 3
LAST = "the last step"

Step = Callable[[], float]


@dataclass(frozen=True)
class Problem:
    """A network's layer sizes, with ReLU in between, its batch size, and its optimizer.

    Ten outputs are classes, trained by cross entropy; any other number is a regression, by mean squares.
    """

    sizes: tuple[int, ...]
    batch: int
    optimizer: str

    @property
    def name(self) -> str:
        """What the table calls it, like ``784-2048-2048-10 x 256, adam``."""
        first, *inner, last = self.sizes
        layers = f" ({len(inner) + 1} layers)" if len(inner) > 2 else ""
        middle = ["..."] if layers else map(str, inner)
        return f"{'-'.join([str(first), *middle, str(last)])}{layers} x {self.batch}, {self.optimizer}"

    @property
    def classifies(self) -> bool:
        """Whether the outputs are classes."""
        return self.sizes[-1] == 10


PROBLEMS = tuple(
    Problem(sizes, batch, optimizer)
    for sizes, batch in (
        ((784, 2048, 2048, 10), 256),
        ((1024,) * 12 + (10,), 512),
        ((1024,) * 13, 512),
    )
    for optimizer in ("sgd", "momentum", "adam")
)


class Library(NamedTuple):
    """What the program takes from one library."""

    nn: ModuleType
    optim: Any
    tensor: Callable[[Any], Any]
    scope: Callable[[], Any]


LIBRARIES = {
    OURS: Library(nn, nn.optim, tensor.tensor, new_dispose_scope),
    TORCH: Library(torch.nn, torch.optim, torch.tensor, nullcontext),
}


def cases() -> Iterator[Case]:
    """Yield peaks of live bytes for each network and optimizer, then high waters of processes."""
    for problem in PROBLEMS:
        yield Case(f"peaks/{problem.name}", partial(_live, problem), rounds=1, repetitions=1, unit="bytes")
    if STATUS.exists():
        for problem in PROBLEMS:
            name = f"peaks/process, {problem.name}"
            yield Case(name, partial(_processes, problem), rounds=1, repetitions=1, unit="bytes")


def training(library: Library, problem: Problem) -> Step:
    """Make model, data and optimizer, and return the step, as users write it."""
    layers: list[Any] = []
    for inner, outer in pairwise(problem.sizes):
        layers += [library.nn.Linear(inner, outer), library.nn.ReLU()]
    model = library.nn.Sequential(*layers[:-1])
    if problem.optimizer == "adam":
        optimizer = library.optim.Adam(model.parameters(), lr=RATE)
    else:
        momentum = 0.9 if problem.optimizer == "momentum" else 0.0
        optimizer = library.optim.SGD(model.parameters(), lr=RATE, momentum=momentum)
    functional = library.nn.functional
    criterion = functional.cross_entropy if problem.classifies else functional.mse_loss
    random = np.random.default_rng(0)
    inputs = library.tensor(random.standard_normal((problem.batch, problem.sizes[0]), dtype=np.float32))
    targets = library.tensor(
        random.integers(0, 10, problem.batch)
        if problem.classifies
        else random.standard_normal((problem.batch, problem.sizes[-1]), dtype=np.float32)
    )

    def step() -> float:
        with library.scope():
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
            return float(loss.item())

    return step


def our_peak(problem: Problem) -> int:
    """Return the most bytes that were live in our third step, of all that was made for the training."""
    gc.collect()
    pooled_from = memory.configuration().min_pooled_bytes
    # Temporaries that the pool does not make are not counted before they are tensors: let it make all.
    memory.configure(min_pooled_bytes=0)
    try:
        before = memory.statistics().bytes_live
        step = training(LIBRARIES[OURS], problem)
        for _ in range(STEPS - 1):
            step()
        with memory.measure() as last:
            step()
    finally:
        memory.configure(min_pooled_bytes=pooled_from)
    return last.peak_bytes - before


def torch_peak(problem: Problem) -> int:
    """Return the most bytes that were live in PyTorch's third step, of all that was made for the training."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        step = training(LIBRARIES[TORCH], problem)
        for _ in range(STEPS - 1):
            step()
        with record_function(LAST):
            step()
    recorded: Any = profiler.profiler
    events = recorded.kineto_results.events()
    (start,) = [event.start_ns() for event in events if event.name() == LAST]
    # What is freed has a negative size. The sort is stable: equal times stay in order.
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    live = peak = 0
    for when, nbytes in sorted(changes, key=itemgetter(0)):
        if when >= start:
            peak = max(peak, live)
        live += nbytes
    return max(peak, live)


def _live(problem: Problem) -> Mapping[str, Timer]:
    return {OURS: lambda _: our_peak(problem), TORCH: lambda _: torch_peak(problem)}


def _processes(problem: Problem) -> Mapping[str, Timer]:
    return {name: partial(_high_water_of, name, problem) for name in (OURS, TORCH)}


def _high_water_of(library: str, problem: Problem, _repetitions: int) -> float:
    program = PROGRAM.format(library, PROBLEMS.index(problem))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return float(done.stdout)


def print_high_water(library: str, number: int) -> None:
    """Train in this process, and print how far its memory rose above that of a tiny training, in bytes."""
    torch.set_num_threads(2)
    problem = PROBLEMS[number]
    # What is loaded and set up once has nothing to do with the network.
    tiny = replace(problem, sizes=(8, 8, problem.sizes[-1]), batch=8)
    training(LIBRARIES[library], tiny)()
    gc.collect()
    before = _status("VmRSS")
    step = training(LIBRARIES[library], problem)
    for _ in range(STEPS):
        step()
    print(_status("VmHWM") - before)


def _status(name: str) -> int:
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024
