"""Peak memory of training and of inference: live bytes, and the high water of a process of its own.

One program runs with both libraries: PyTorch's, with its imports changed. A peak is that of the third step,
when gradients of the last one and the optimizer's state are there; it includes parameters, data and state.

Live bytes: ours is what ``memory.measure`` tells, with every array counted, however small; PyTorch's is the
running sum of what its profiler says was allocated and freed, from before the model was made. High water is
what the system says (``VmHWM``, Linux only), of a whole process, above its state after the imports, and above
its state when it has run a tiny network as well, which loads code and starts threads. It counts what is
cached, in our pool or in the C library, and the buffers of BLAS.
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

from benchmarks import ROOT
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


def cases() -> Iterator[Case]:
    """Yield peaks of live bytes for each network and optimizer, then high waters of processes."""
    in_bytes = partial(Case, contenders=(OURS, TORCH), rounds=1, repetitions=1, unit="bytes")
    for name, network, optimizer in trainings((*NETWORKS, *DEEP)):
        yield in_bytes(f"peaks/{name}", partial(_live, network, optimizer))
    if STATUS.exists():
        for words, above in ABOVE.items():
            for name in _tasks():
                yield in_bytes(f"peaks/{words}: {name}", partial(_process, above, name))


def _tasks() -> dict[str, tuple[Network, Callable[[Library, Network], Step]]]:
    """Return what a process does, by name: the network, and what makes the step."""
    tasks: dict[str, tuple[Network, Callable[[Library, Network], Step]]] = {}
    for name, network, optimizer in trainings():
        tasks[name] = network, partial(_training, optimizer)
    for network in NETWORKS:
        tasks[f"{network.name}, inference"] = network, partial(inference, weights=None)
    return tasks


def _training(optimizer: str, contender: Library, network: Network) -> Step:
    return training(contender, network, optimizer, RATE, weights=None)


def our_peak(network: Network, optimizer: str) -> int:
    """Return the most bytes that were live in our third step, of all that was made for the training."""
    memory = library(OURS).xp.memory
    gc.collect()
    pooled_from = memory.configuration().min_pooled_bytes
    # Temporaries that the pool does not make are not counted before they are tensors: let it make all.
    memory.configure(min_pooled_bytes=0)
    try:
        before = memory.statistics().bytes_live
        step = _training(optimizer, library(OURS), network)
        for _ in range(STEPS - 1):
            step()
        with memory.measure() as last:
            step()
    finally:
        memory.configure(min_pooled_bytes=pooled_from)
    return int(last.peak_bytes - before)


def torch_peak(network: Network, optimizer: str) -> int:
    """Return the most bytes that were live in PyTorch's third step, of all that was made for the training."""
    torch = library(TORCH)
    profiling = torch.xp.profiler
    activities = [profiling.ProfilerActivity.CPU]
    with profiling.profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        step = _training(optimizer, torch, network)
        for _ in range(STEPS - 1):
            step()
        with profiling.record_function(LAST):
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


def _live(network: Network, optimizer: str, contender: Library) -> Timer:
    peak = {OURS: our_peak, TORCH: torch_peak}[contender.name]
    return lambda _: peak(network, optimizer)


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
    """Do three steps in this process, and print its memory at the moments that count, in bytes."""
    network, make = _tasks()[task]
    own = library(contender)
    gc.collect()
    levels = {"imports": _status("VmRSS")}
    tiny = replace(network, sizes=(8, 8, network.sizes[-1]), batch=8)
    make(own, tiny)()
    gc.collect()
    levels["tiny"] = _status("VmRSS")
    CLEAR.write_text("5")  # proc(5): high water starts again, for importing may have gone above
    step = make(own, network)
    for _ in range(STEPS):
        step()
    levels["high water"] = _status("VmHWM")
    print(json.dumps(levels))


def _status(name: str) -> int:
    (line,) = [line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return int(line.split()[1]) * 1024
