"""Peak memory of training and inference: live bytes, and the high-water mark of a separate process.

One program runs with both libraries: PyTorch's, with its imports changed. A peak is that of the third step,
when the gradients of the last step and the optimizer's state exist. It includes parameters, data and state.

Live bytes: ours is the figure of ``memory.measure``, which counts arrays of all sizes. PyTorch's is the
running sum of the allocations and frees in its profiler, from before the creation of the model. The
high-water mark is that of the system (``VmHWM``, Linux only) for a whole process, above its state after the
imports, and above its state after a tiny network, which loads code and starts threads. It includes cached
memory, in our pool or in the C library, and the buffers of BLAS.
"""

import gc
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks import ROOT, convolutions
from benchmarks.contenders import OURS, TORCH, Library, library
from benchmarks.harness import Case, Timer
from benchmarks.networks import NETWORKS, Network, Step, inference, training, trainings

DEEP = (Network((1024,) * 12 + (10,), 512), Network((1024,) * 13, 512))

PROGRAM = "from benchmarks import peaks; peaks.print_high_water({!r}, {!r})"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
ABOVE = {"process": "imports", "process, tiny before": "tiny"}
RATE = 1e-4
STEPS = 3
LAST = "the last step"

# Creates a step for a library, with its model and data.
Maker = Callable[[Library], Step]


def cases() -> Iterator[Case]:
    """Yield peaks of live bytes for each network and optimizer, then high-water marks of processes."""
    in_bytes = partial(Case, contenders=(OURS, TORCH), rounds=1, repetitions=1, unit="bytes")
    for name, network, optimizer in trainings((*NETWORKS, *DEEP)):
        yield in_bytes(f"peaks/{name}", partial(_live, training_of(network, optimizer)))
    for sizes in convolutions.SIZES:
        yield in_bytes(f"peaks/{convolutions.name_of(sizes)}", partial(_live, convolution_of(sizes)))
    if STATUS.exists():
        for words, above in ABOVE.items():
            for name in _tasks():
                yield in_bytes(f"peaks/{words}: {name}", partial(_process, above, name))


def _tasks() -> dict[str, tuple[Maker, Maker]]:
    """Return the tasks of a process, by name: a tiny step of the same kind, and the step."""
    tasks: dict[str, tuple[Maker, Maker]] = {}
    for name, network, optimizer in trainings():
        tasks[name] = training_of(_tiny(network), optimizer), training_of(network, optimizer)
    for sizes in convolutions.SIZES:
        tasks[convolutions.name_of(sizes)] = convolution_of((2, 2, 8, 2)), convolution_of(sizes)
    for network in NETWORKS:
        tasks[f"{network.name}, inference"] = (
            partial(inference, network=_tiny(network), weights=None),
            partial(inference, network=network, weights=None),
        )
    return tasks


def _tiny(network: Network) -> Network:
    return replace(network, sizes=(8, 8, network.sizes[-1]), batch=8)


def training_of(network: Network, optimizer: str) -> Maker:
    """Return a function that creates the training step of a network for a library."""
    return partial(training, network=network, optimizer=optimizer, rate=RATE, weights=None)


def convolution_of(sizes: convolutions.Sizes) -> Maker:
    """Return a function that creates the training step of a convolution for a library."""
    return partial(convolutions.training, sizes=sizes, rate=RATE)


def our_peak(make: Maker) -> int:
    """Return the most live bytes in our third step, of everything created for the training."""
    memory = library(OURS).xp.memory
    gc.collect()
    pooled_from = memory.configuration().min_pooled_bytes
    # Temporary arrays outside of the pool count only once they are tensors, so use the pool for all.
    memory.configure(min_pooled_bytes=0)
    try:
        before = memory.statistics().bytes_live
        step = make(library(OURS))
        for _ in range(STEPS - 1):
            step()
        with memory.measure() as last:
            step()
    finally:
        memory.configure(min_pooled_bytes=pooled_from)
    return int(last.peak_bytes - before)


def torch_peak(make: Maker) -> int:
    """Return the most live bytes in PyTorch's third step, of everything created for the training."""
    torch = library(TORCH)
    profiling = torch.xp.profiler
    activities = [profiling.ProfilerActivity.CPU]
    with profiling.profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        step = make(torch)
        for _ in range(STEPS - 1):
            step()
        with profiling.record_function(LAST):
            step()
    recorded: Any = profiler.profiler
    events = recorded.kineto_results.events()
    (start,) = [event.start_ns() for event in events if event.name() == LAST]
    # Frees have a negative size. The sort is stable: equal times stay in order.
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    live = peak = 0
    for when, nbytes in sorted(changes, key=itemgetter(0)):
        if when >= start:
            peak = max(peak, live)
        live += nbytes
    return max(peak, live)


def _live(make: Maker, contender: Library) -> Timer:
    peak = {OURS: our_peak, TORCH: torch_peak}[contender.name]
    return lambda _: peak(make)


def _process(above: str, task: str, contender: Library) -> Timer:
    def nbytes(_: int) -> float:
        levels = _levels_of(contender.name, task)
        return levels["high water"] - levels[above]

    return nbytes


@cache
def _levels_of(contender: str, task: str) -> dict[str, int]:
    command = [sys.executable, "-c", PROGRAM.format(contender, task)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    levels: dict[str, int] = json.loads(done.stdout)
    return levels


def print_high_water(contender: str, task: str) -> None:
    """Run three steps in this process, and print its memory at each relevant moment, in bytes."""
    make_tiny, make = _tasks()[task]
    own = library(contender)
    gc.collect()
    levels = {"imports": _status("VmRSS")}
    make_tiny(own)()
    gc.collect()
    levels["tiny"] = _status("VmRSS")
    CLEAR.write_text(
        "5", encoding="utf-8"
    )  # proc(5): reset the high-water mark, because imports may have exceeded it
    step = make(own)
    for _ in range(STEPS):
        step()
    levels["high water"] = _status("VmHWM")
    print(json.dumps(levels))


def _status(name: str) -> int:
    (line,) = [
        line for line in STATUS.read_text(encoding="utf-8").splitlines() if line.startswith(f"{name}:")
    ]
    return int(line.split()[1]) * 1024
