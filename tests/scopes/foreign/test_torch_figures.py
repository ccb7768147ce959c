"""``scopes.torch.memory``: its figures are those of an allocator below PyTorch, to the byte."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import pickle
import platform
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import scopes.torch
from scopes import new_dispose_scope, track
from scopes.adapters.torch import cpu_allocator
from scopes.torch import memory
from tests.scopes.foreign import torch_figures

ROOT = Path(__file__).parents[3]

# On other systems nothing counts the memory of CPU tensors, and each function says so.
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs a system with Linux"),
    pytest.mark.skipif(not cpu_allocator.HAS_LIBRARY_OF_PYTORCH, reason="needs a build with GCC's library"),
]
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
CAN_INTERPOSE = platform.libc_ver()[0] == "glibc" and "LD_PRELOAD" not in os.environ


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[int]]]:
    """The figures of all programs, counted by `scopes.torch.memory` and by an interposed allocator."""
    if COMPILER is None:
        pytest.skip("needs a C compiler for the allocator to interpose")
    if not CAN_INTERPOSE:
        pytest.skip("needs a process with glibc, and no other library in LD_PRELOAD")
    library = tmp_path_factory.mktemp("interposed") / "interposed.so"
    source = Path(__file__).with_name("interposed_allocator.c")
    command = [COMPILER, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    done = subprocess.run(
        [sys.executable, "-m", torch_figures.__name__],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1"},
    )
    found: dict[str, dict[str, list[int]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", [each.__name__ for each in torch_figures.PROGRAMS])
def test_figures_are_those_of_an_allocator_below_pytorch(
    figures: dict[str, dict[str, list[int]]], name: str
) -> None:
    found = figures[name]
    counted, interposed = found["counted"], found["interposed"]
    if name == "use_threads":
        # An allocation reaches both counters one after the other, so the peaks of six threads may differ.
        assert abs(counted.pop(1) - interposed.pop(1)) < 6 * 2 * 1300
        assert counted == interposed
    else:
        assert counted == interposed
        assert found["measured"] == counted[:3]
    assert any(counted)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_of_the_adapter_does_not_count() -> None:
    program = """
import sys, torch, scopes.torch
print("scopes.torch.memory" in sys.modules, "scopes.adapters.torch.cpu_allocator" in sys.modules)
scopes.torch.memory.statistics()
print("scopes.torch.memory" in sys.modules)
"""
    assert run(program).split() == ["False", "False", "True"]


def test_memory_from_before_the_import_is_a_figure_of_its_own() -> None:
    program = """
import numpy, torch
older, shared = torch.ones(1000), torch.from_numpy(numpy.ones(1000))
graph = (torch.ones(500, requires_grad=True) * 2).sin()
from scopes.torch import memory
before = memory.statistics()
print(before.bytes_uncounted >= 4000 + 2 * 2000, before.bytes_live)
del older
print((memory.statistics() - before).bytes_uncounted, (memory.statistics() - before).bytes_freed)
"""
    assert run(program).split() == ["True", "0", "-4000", "0"]


def test_import_inside_a_mode_or_with_another_default_counts() -> None:
    program = """
import torch
from torch._subclasses import FakeTensorMode
with FakeTensorMode(), torch.device("meta"), torch.no_grad():
    from scopes.torch import memory
    with memory.measure() as fake:
        torch.ones(1000)
with memory.measure() as real:
    x = torch.ones(1000)
print(fake.allocated_bytes, real.allocated_bytes)
"""
    assert run(program).split() == ["0", "4000"]


def test_a_measure_tells_its_figures_inside_the_block_and_after_it() -> None:
    kept = torch.ones(500)
    with memory.measure() as used:
        x = torch.ones(1000)
        assert (used.live_bytes_change, used.peak_bytes_change, used.allocated_bytes) == (4000, 4000, 4000)
        y = x.neg()
        del x, kept
    assert (used.live_bytes_change, used.peak_bytes_change, used.allocated_bytes) == (2000, 8000, 8000)
    del y
    assert used.live_bytes_change == 2000
    assert repr(used).startswith("<measure: peak ")


def test_measures_nest_and_overlap() -> None:
    with memory.measure() as outer:
        x = torch.ones(1000)
        with memory.measure() as inner:
            torch.ones(500)
        first, second = memory.measure(), memory.measure()
        first.__enter__()
        x = torch.ones(250)
        second.__enter__()
        first.__exit__()
        x = torch.ones(1)
        second.__exit__()
    assert (inner.peak_bytes_change, inner.live_bytes_change) == (2000, 0)
    assert (outer.peak_bytes_change, outer.live_bytes_change) == (6000, 4)
    assert (first.peak_bytes_change, first.live_bytes_change) == (1000, 1000 - 4000)
    assert (second.peak_bytes_change, second.live_bytes_change) == (4, 4 - 1000)
    assert outer.peak_bytes >= inner.peak_bytes
    del x


def test_a_measure_ends_with_an_exception_and_can_run_again() -> None:
    used = memory.measure()
    with pytest.raises(ZeroDivisionError), used:
        x = torch.ones(1000)
        del x
        _ = 1 / 0
    assert (used.peak_bytes_change, used.live_bytes_change) == (4000, 0)
    with used:
        torch.ones(10)
    assert used.peak_bytes_change == 40


def test_a_measure_refuses_to_run_twice_and_to_tell_figures_too_early() -> None:
    used = memory.measure()
    assert repr(used) == "<measure: not started>"
    with pytest.raises(RuntimeError, match="nothing was measured yet"):
        _ = used.peak_bytes
    with used, pytest.raises(RuntimeError, match="already running"):
        used.__enter__()
    used.__exit__()  # without effect


def test_a_measure_that_the_program_drops_does_no_harm() -> None:
    for _ in range(100):
        used = memory.measure()
        used.__enter__()
        del used
        torch.ones(10)  # raises the peaks of open measures
    with memory.measure() as used:
        torch.ones(10)
    assert used.peak_bytes_change == 40


def test_a_decorated_function_is_measured_at_each_call() -> None:
    used = memory.measure()

    @used
    def make(n: int) -> Any:
        return torch.ones(n)

    x = make(100)
    assert used.live_bytes_change == 400
    x = make(1000)
    assert used.live_bytes_change == 4000
    del x

    @used
    async def wait() -> Any:
        await asyncio.sleep(0)
        return torch.ones(7)

    assert asyncio.run(wait()).shape == (7,)
    assert used.live_bytes_change == 28
    with pytest.raises(TypeError, match="generator function"):

        @used
        def generate() -> Iterator[int]:
            yield 1


def test_a_measure_covers_other_threads_and_backward() -> None:
    weight = torch.ones(1000, requires_grad=True)
    with memory.measure() as used:
        thread = threading.Thread(target=lambda: weight.sin().sum().backward())
        thread.start()
        thread.join()
    assert used.live_bytes_change == 4000  # the gradient
    assert weight.grad is not None


def test_statistics_subtract_and_the_peak_can_be_reset() -> None:
    x = torch.ones(100_000)
    del x
    memory.reset_peak()
    before = memory.statistics()
    assert before.bytes_peak == before.bytes_live
    with memory.measure() as used:
        x = torch.ones(1000)
        del x
        memory.reset_peak()
    change = memory.statistics() - before
    assert change == (0, 0, 4000, 4000, 0, 1, 0)
    assert used.peak_bytes_change == 4000
    assert "bytes_live: 0 bytes" in str(change)
    assert "bytes_live" in change._repr_html_()
    assert pickle.loads(pickle.dumps(change)) == change


def test_memory_of_other_libraries_is_not_live() -> None:
    numpy = pytest.importorskip("numpy")
    with memory.measure() as used:
        x = torch.from_numpy(numpy.ones(1000))
        shared = torch.ones(1000).share_memory_()
        shared.add_(shared)
        fake = torch.ones(1000, device="meta")
    assert used.live_bytes_change == 0
    del x, shared, fake


def test_a_limit_refuses_before_the_allocation() -> None:
    before = memory.statistics()
    with memory.limit(before.bytes_live + 1_000_000):
        x = torch.ones(200_000)
        with pytest.raises(memory.OutOfMemoryError) as caught:
            torch.ones(1000, 1000)
        change = memory.statistics() - before
        assert change.bytes_live == change.bytes_allocated == 800_000
    error = caught.value
    assert (error.asked, error.live, error.limit) == (
        4_000_000,
        before.bytes_live + 800_000,
        before.bytes_live + 1_000_000,
    )
    assert "1 x float32[200000], 781.2 KiB" in error.holders
    assert "asked for 3.815 MiB more" in str(error)
    assert (x == 1).all()
    assert torch.ones(1000, 1000).sum() == 1_000_000  # after the block


@pytest.mark.parametrize("expected", [MemoryError, RuntimeError, torch.OutOfMemoryError])
def test_the_error_is_what_programs_catch(expected: type[Exception]) -> None:
    with memory.limit(0), pytest.raises(expected, match="DefaultCPUAllocator: can't allocate memory"):
        torch.ones(1)


def test_the_error_pickles() -> None:
    with memory.limit(10), pytest.raises(memory.OutOfMemoryError) as caught:
        torch.ones(10)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is memory.OutOfMemoryError
    assert str(copy) == str(caught.value)
    assert (copy.asked, copy.limit, copy.holders) == (40, 10, caught.value.holders)


def test_the_error_names_lines_and_what_only_graphs_hold() -> None:
    with track(), memory.limit(memory.statistics().bytes_live + 100_000):
        weight = torch.ones(5000, requires_grad=True)
        y = weight.exp().sum()  # the graph saves the result, which has no Python object
        with pytest.raises(memory.OutOfMemoryError) as caught:
            torch.ones(100_000)
    text = str(caught.value)
    assert f"{Path(__file__).name}:" in text
    assert "The lines that created most: " in text
    assert "1 x float32[5000] parameter" not in text
    assert any("that only C++ holds" in each for each in caught.value.holders)
    del y


def test_the_error_does_not_blame_only_graphs_for_tensors_that_are_frozen() -> None:
    x = torch.ones(5000)
    gc.freeze()
    try:
        with (
            memory.limit(memory.statistics().bytes_live + 1000),
            pytest.raises(memory.OutOfMemoryError) as caught,
        ):
            torch.ones(100_000)
    finally:
        gc.unfreeze()
    assert any("or tensors that gc.freeze() hides" in each for each in caught.value.holders)
    del x


def _places(limit: int) -> dict[str, Any]:
    weight = torch.ones(1, requires_grad=True)
    wide = (weight.expand(limit) * 2).sum()
    storage = torch.ones(1).untyped_storage()
    saved = torch_figures.saved(torch.ones(limit))
    module = torch.nn.Linear(10, 10)

    class Doubled(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.expand(limit) * 2

    return {
        "function": lambda: torch.ones(limit),
        "method": lambda: torch.ones(1).expand(limit).contiguous(),
        "constructor": lambda: torch.Tensor(limit),
        "from a list": lambda: torch.tensor([0.0] * limit),
        "resize": lambda: storage.resize_(4 * limit),
        "backward": wide.backward,
        "module": lambda: module(torch.ones(1, 10).expand(limit, 10)),
        "custom function": lambda: Doubled.apply(torch.ones(1)),
        "file": lambda: torch.load(saved),
        "parallel loop": lambda: torch.ones(1).expand(limit).sort(),
        "vmap": lambda: torch.vmap(lambda x: x.expand(limit) * 2)(torch.ones(3, 1)),
        "jit": lambda: torch.jit.trace(lambda x: x.expand(limit) + 1, (torch.ones(1),), check_trace=False),
    }


@pytest.mark.parametrize("name", list(_places(10)))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_limit_applies_at_each_place_that_allocates(name: str) -> None:
    act = _places(100_000)[name]
    live = memory.statistics().bytes_live
    with memory.limit(live + 200_000), pytest.raises(memory.OutOfMemoryError):
        act()
    del act
    act = _places(100_000)[name]
    with memory.limit(memory.statistics().bytes_live + 20_000_000):
        act()


def test_the_smallest_of_nested_limits_applies() -> None:
    live = memory.statistics().bytes_live
    with memory.limit(live + 10_000), memory.limit(live + 1_000_000):
        with pytest.raises(memory.OutOfMemoryError):
            torch.ones(10_000)
        with memory.limit(live + 1_000), pytest.raises(memory.OutOfMemoryError):
            torch.ones(1_000)
        torch.ones(1_000)
    again = memory.limit(live + 100)
    with again, again, pytest.raises(memory.OutOfMemoryError):
        torch.ones(100)
    torch.ones(10_000)


def test_a_limit_ends_with_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), memory.limit(0):
        _ = 1 / 0
    torch.ones(10)


def test_a_limit_applies_to_other_threads() -> None:
    errors: list[BaseException] = []

    def allocate() -> None:
        try:
            torch.ones(100_000)
        except memory.OutOfMemoryError as error:
            errors.append(error)

    with memory.limit(memory.statistics().bytes_live + 1000):
        threads = [threading.Thread(target=allocate) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(errors) == 4


def test_a_limit_decorates_functions_and_bad_sizes_are_refused() -> None:
    @memory.limit(memory.statistics().bytes_live + 10_000)
    def make(n: int) -> Any:
        return torch.ones(n)

    assert make(10).numel() == 10
    with pytest.raises(memory.OutOfMemoryError):
        make(10_000)
    with pytest.raises(ValueError, match="limit: 'much' is not a size"):
        memory.limit("much")
    with pytest.warns(RuntimeWarning, match="limited nothing"):
        memory.limit("1 GiB")


class _Cycle:
    def __init__(self, x: Any) -> None:
        self.x = x
        self.me = self


def test_memory_in_cycles_is_freed_before_an_allocation_is_refused() -> None:
    gc.collect()
    gc.disable()
    try:
        with memory.limit(memory.statistics().bytes_live + 1_000_000):
            for _ in range(10):
                _Cycle(torch.ones(100_000))
    finally:
        gc.enable()


def test_finalizers_run_with_the_state_of_a_new_thread() -> None:
    found: list[Any] = []

    class Late(_Cycle):
        def __del__(self) -> None:
            weight = torch.ones(2, requires_grad=True)
            found.append((weight * 2).grad_fn is not None)
            try:
                torch.ones(1_000_000)
            except memory.OutOfMemoryError:
                found.append("refused")

    gc.collect()
    with torch.no_grad(), memory.limit(memory.statistics().bytes_live + 1_000_000):
        Late(torch.ones(100_000))
        torch.ones(200_000)
    assert found == [True, "refused"]


def test_an_interrupt_during_a_refusal_reaches_the_program() -> None:
    program = """
import _thread, gc, time, torch
from scopes.torch import memory
class Slow:
    def __init__(self): self.me = self
    def __del__(self):
        _thread.interrupt_main()
        time.sleep(0.5)
gc.disable()
x = torch.ones(1000)
with memory.limit(memory.statistics().bytes_live + 1000):
    Slow()
    try:
        torch.ones(500)
    except KeyboardInterrupt:
        print("interrupted")
"""
    assert run(program).split() == ["interrupted"]


def test_counting_goes_on_in_a_forked_process_while_threads_allocate() -> None:
    program = """
import os, threading, torch
from scopes.torch import memory
torch.set_num_threads(1)
stop = threading.Event()
def allocate():
    while not stop.is_set():
        torch.ones(10)
threads = [threading.Thread(target=allocate) for _ in range(2)]
for thread in threads: thread.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        with memory.measure() as used:
            x = torch.empty(1000)
        os._exit(0 if used.live_bytes_change == 4000 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
"""
    run("import warnings; warnings.simplefilter('ignore', DeprecationWarning)\n" + program)


def test_scopes_end_what_the_figures_count() -> None:
    with memory.measure() as used, scopes.torch.owning():
        for _ in range(10):
            with new_dispose_scope():
                x = torch.ones(1000)
                y = x.neg()
    assert used.live_bytes_change == 0
    assert used.peak_bytes_change == 8000
    del x, y


def test_a_search_for_a_batch_size_works_under_a_limit() -> None:
    accelerate = pytest.importorskip("accelerate")

    @accelerate.utils.find_executable_batch_size(starting_batch_size=1024)  # type: ignore[untyped-decorator]
    def train(batch_size: int) -> int:
        torch.ones(batch_size, 1000)
        return batch_size

    with memory.limit(memory.statistics().bytes_live + 1_000_000), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert 100 < train() <= 250


ON_ANOTHER_THREAD = """
def make(n: int):
    return torch.ones([n])

def make_on_a_thread_of_cpp(n: int):
    return torch.jit.wait(torch.jit.fork(make, n))
"""


def test_a_thread_that_python_does_not_know_gets_pytorchs_error() -> None:
    make = torch.jit.CompilationUnit(ON_ANOTHER_THREAD).make_on_a_thread_of_cpp
    assert make(3).numel() == 3
    refused = pytest.raises(RuntimeError, match="not enough memory: you tried to allocate 40000 bytes")
    with memory.limit(memory.statistics().bytes_live + 1000), refused:
        make(10_000)


def test_other_devices_are_refused() -> None:
    with pytest.raises(ValueError, match="no figures of the device 'meta'"):
        memory.statistics("meta")
    with pytest.raises(ValueError, match="no figures of the device 'xpu'"):
        memory.measure("xpu")


class _Gpu:
    """Stands for PyTorch's figures of one CUDA device."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.live = self.peak = self.allocated = 0
        patch.setattr(torch.cuda, "memory_allocated", lambda device: self.live)
        patch.setattr(torch.cuda, "max_memory_allocated", lambda device: self.peak)
        patch.setattr(torch.cuda, "memory_reserved", lambda device: self.live + 5)
        patch.setattr(torch.cuda, "reset_peak_memory_stats", self.reset)
        patch.setattr(torch.cuda, "memory_stats", lambda device: self.stats())

    def stats(self) -> dict[str, int]:
        return {
            "allocated_bytes.all.allocated": self.allocated,
            "allocated_bytes.all.freed": self.allocated - self.live,
            "allocation.all.allocated": 3,
        }

    def reset(self, device: int) -> None:
        self.peak = self.live

    def add(self, nbytes: int) -> None:
        self.live += nbytes
        self.allocated += max(nbytes, 0)
        self.peak = max(self.peak, self.live)


def test_figures_of_cuda_devices_are_those_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = _Gpu(monkeypatch)
    gpu.add(100)
    gpu.add(-90)
    memory.reset_peak("cuda:0")
    with memory.measure("cuda:0") as outer:
        gpu.add(50)
        gpu.add(-50)
        with memory.measure("cuda:0") as inner:
            gpu.add(20)
            gpu.add(-15)
        memory.reset_peak("cuda:0")
        gpu.add(1)
    assert (inner.peak_bytes, inner.peak_bytes_change, inner.live_bytes_change) == (30, 20, 5)
    assert (outer.peak_bytes, outer.peak_bytes_change, outer.live_bytes_change) == (60, 50, 6)
    assert outer.allocated_bytes == 71
    assert memory.statistics("cuda:0") == (16, 16, 171, 155, 5, 3, 0)
    memory.reset_peak("cuda:0")
