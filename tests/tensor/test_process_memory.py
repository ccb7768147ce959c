"""The books of memory against the process's own: over a day of allocations, and over a training."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

import nn
import tensor
from nn.data import DataLoader, TensorDataset
from scopes import new_dispose_scope
from tensor import memory
from tests.process import needs_process_memory, needs_process_peaks
from tests.process_memory import KINDS

A_DAY = """
import math, random, sys
import numpy as np
import tensor
from tensor import memory
from tests.process import own_bytes

def make(shape):
    x = random.choice([tensor.empty, tensor.zeros, tensor.ones])((shape,))
    x.fill_(float(random.randrange(100)))  # so that all of its pages are there
    return x

def work(held, arrays):
    chance = random.random()
    if chance < 0.4 or not held:
        nbytes = math.exp(random.uniform(math.log(1e3), math.log(1e8)))
        held.append(make(int(nbytes) // 4))
    elif chance < 0.5:
        held.append(random.choice(held).clone())
    elif chance < 0.6:
        x = random.choice(held)
        held.append(x[len(x) // 2 :] if random.random() < 0.5 else x.alias())
    elif chance < 0.7:
        random.choice(held).add_(1.0)
    elif chance < 0.75:
        arrays.append(random.choice(held).numpy())
    elif chance < 0.8 and arrays:
        arrays.pop(random.randrange(len(arrays)))
    else:
        held.pop(random.randrange(len(held)))
    while memory.statistics().bytes_live + memory.statistics().bytes_pinned > 700_000_000:
        held.pop(random.randrange(len(held))) if held else arrays.pop()
        del arrays[:2]

random.seed(int(sys.argv[1]))
day = [make(n) for n in (300, 30_000, 3_000_000)]  # what is imported late is imported now
day[0].clone().add_(1)
del day
memory.trim()
before = own_bytes()
held, arrays = [], []
for step in range(int(sys.argv[2])):
    work(held, arrays)
    if step % 20 == 19:
        memory.trim()
        now = memory.statistics()
        print(own_bytes() - before, now.bytes_live + now.bytes_pinned, now.bytes_pinned)
held.clear()
arrays.clear()
memory.trim()
now = memory.statistics()
print(own_bytes() - before, now.bytes_live + now.bytes_pinned, now.bytes_pinned)
"""


@needs_process_memory
@pytest.mark.parametrize(("seed", "steps"), [(1, 300), pytest.param(2, 20_000, marks=pytest.mark.soak)])
def test_live_and_pinned_bytes_are_the_bytes_that_the_process_holds(seed: int, steps: int) -> None:
    command = [sys.executable, "-c", A_DAY, str(seed), str(steps)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    *day, end = [[int(number) for number in line.split()] for line in run.stdout.splitlines()]
    assert len(day) == steps // 20
    assert max(ours for _, ours, _ in day) > 500_000_000
    assert any(pinned for _, _, pinned in day)
    for resident, ours, _ in day:
        # The interpreter's own memory, which grows and shrinks, is small compared with that.
        if ours > 100_000_000:
            assert abs(resident - ours) <= 0.05 * ours
    assert end[1] == 0
    assert end[0] < 8_000_000  # all is the system's again


def data() -> DataLoader:
    rng = np.random.default_rng(0)
    inputs = tensor.tensor(rng.standard_normal((1024, 784), np.float32))
    rows = TensorDataset(inputs, tensor.tensor(rng.integers(0, 10, 1024)))
    return DataLoader(rows, 128, shuffle=True, dispose_batches=True)


OPTIMIZERS: dict[str, Callable[..., nn.optim.Optimizer]] = {
    "momentum": lambda parameters: nn.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adam": nn.optim.Adam,
}


@pytest.mark.parametrize("steps", [12, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_takes_no_fresh_memory_from_its_second_step_on(optimizer: str, steps: int) -> None:
    tensor.manual_seed(0)
    layers = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10)]
    with nn.Sequential(*layers) as model:
        optimize = OPTIMIZERS[optimizer](model.parameters())
        loader = data()
        memory.trim()
        before = memory.statistics().reuse_miss_count
        after: list[tuple[int, int]] = []
        while len(after) < steps:
            for inputs, targets in loader:
                with new_dispose_scope():
                    optimize.zero_grad()
                    nn.functional.cross_entropy(model(inputs), targets).backward()
                    optimize.step()
                now = memory.statistics()
                after.append((now.reuse_miss_count, now.bytes_live))
    # The first step makes the optimizer's state too.
    assert after[0][0] > before
    assert set(after) == {after[0]}


PEAK = """
import os, re, sys
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # each core keeps a part of the sums for a while
import tensor
from tensor import memory

def kibibytes(figure):
    return int(re.search(figure + r":\\s+(\\d+)", open("/proc/self/status").read())[1])

def calls(x):
    return {
        "sort": lambda: lambda: x.detach().sort(0),
        "argsort": lambda: lambda: x.detach().argsort(descending=True),
        "topk": lambda: lambda: x.detach().topk(10),
        "unique": lambda: lambda: x.detach().unique(),
        "backward of sort": lambda: x.sort(0)[0].sum().backward,
        "backward of topk": lambda: x.topk(500)[0].sum().backward,
        "backward of max": lambda: x.max(0)[0].sum().backward,
    }

name = sys.argv[1]
calls(tensor.rand(10, 1000, requires_grad=True))[name]()()  # loads the code, which takes memory too
x = tensor.rand(1000, 1000, requires_grad=True)
call = calls(x)[name]()
memory.trim()
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # resets the high-water mark
before = kibibytes("VmRSS")
with memory.measure() as measured:
    result = call()
print(measured.peak_bytes_change, (kibibytes("VmHWM") - before) * 1024)
"""


@needs_process_peaks
@pytest.mark.parametrize(
    "call",
    [
        "sort",
        "argsort",
        "topk",
        "unique",
        "backward of sort",
        "backward of topk",
        "backward of max",
    ],
)
def test_the_peaks_of_sorting_and_of_its_backward_are_the_processs(call: str) -> None:
    run = subprocess.run([sys.executable, "-c", PEAK, call], capture_output=True, text=True, check=True)
    told, taken = map(int, run.stdout.split())
    assert told >= 1_000_000 * 4
    # A block's last huge page may be a sixteenth more, as `bytes_overhead` tells. NumPy's sort keeps the half
    # of a row or column in memory of its own; `unique` has a single row.
    assert taken - 1_500_000 <= told + told // 16 + (1_000_000 * 4 if call == "unique" else 0)
    assert told <= taken + 1_500_000


FEW_LEFT = """
import gc
import tensor
from tensor import memory
from tests.process import own_bytes

def excess():
    gc.collect()
    memory.trim()
    now = memory.statistics()
    return own_bytes() - before - now.bytes_live - now.bytes_cached - now.bytes_pinned - now.bytes_overhead

def fill():
    for i in range(len(held)):
        if held[i] is None:
            held[i] = tensor.ones((28,))

held = [None] * 100_000
fill()
held[:] = [None] * len(held)
gc.collect()
memory.trim()
before = own_bytes()
fill()
filled = own_bytes() - before
for i in range(len(held)):
    if i % 100:
        held[i] = None
left = excess()
fill()
again = own_bytes() - before
held.clear()
print(filled, left, again, excess())
"""


@needs_process_memory
def test_memory_that_python_keeps_beside_few_tensors_is_used_again_and_freed_with_the_last() -> None:
    run = subprocess.run([sys.executable, "-c", FEW_LEFT], capture_output=True, text=True, check=True)
    filled, left, again, at_the_end = map(int, run.stdout.split())
    assert filled > 40_000_000
    assert left < filled  # mostly Python's arenas: nobody but Python can give them back
    assert again < 1.1 * filled
    assert at_the_end < 0.1 * filled


@needs_process_memory
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures glibc's malloc_trim")
def test_trim_gives_back_what_few_tensors_leave_if_pythons_objects_are_in_the_c_heap() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FEW_LEFT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONMALLOC": "malloc"},
    )
    filled, left, _, at_the_end = map(int, run.stdout.split())
    assert filled > 40_000_000
    assert left < 0.25 * filled
    assert at_the_end < 0.1 * filled


@needs_process_memory
@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", KINDS)
def test_all_reported_memory_together_is_the_memory_of_the_process(kind: str, count: int) -> None:
    command = [sys.executable, "-m", "tests.process_memory", kind, str(count)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    process, told, left, left_told, _ = map(int, run.stdout.split())
    assert told > 0
    assert abs(process - told) <= max(0.01 * told, 1 << 20)
    assert left_told == 0
    assert left <= 1 << 20  # what Python and NumPy keep from the first time on is used again
