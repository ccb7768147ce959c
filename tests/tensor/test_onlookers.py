"""Counts, copies on write and limits beside tools that hold references to all tensors."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import objgraph
import pytest

import tensor
from scopes import new_dispose_scope, statistics
from tensor import Tensor, memory

N = 100_000
BYTES = 4 * N

# Lets a tool look, and keep what it sees.
Look = Callable[[], None]


@contextmanager
def nobody() -> Iterator[Look]:
    yield lambda: None


@contextmanager
def collector() -> Iterator[Look]:
    """Hold what the collector knows, but for tuples: those of the tape hold arrays."""
    held: list[Any] = []

    def look() -> None:
        held.append([x for x in gc.get_objects() if type(x) is not tuple])

    yield look
    look()
    held.clear()


@contextmanager
def graphs_of_objects() -> Iterator[Look]:
    """Hold what objgraph finds: tensors by their type, and the chains of who refers to them."""
    held: list[Any] = []

    def look() -> None:
        tensors = objgraph.by_type("Tensor")
        chains = [objgraph.find_backref_chain(x, objgraph.is_proper_module, max_depth=3) for x in tensors]
        held.append((tensors, chains, objgraph.typestats()))

    yield look
    look()
    held.clear()


@contextmanager
def debugger() -> Iterator[Look]:
    """Hold each frame of this file at each of its lines, and its locals, as a debugger that steps does."""
    held: list[Any] = []

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename != __file__:
            return None
        held.append((frame, dict(frame.f_locals), argument))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    sys._getframe(2).f_trace = trace
    try:
        yield lambda: None
    finally:
        sys.settrace(before)
        held.clear()


ONLOOKERS = [nobody, collector, graphs_of_objects, debugger]


@pytest.fixture(params=ONLOOKERS, ids=lambda tool: tool.__name__)
def onlooker(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[Look]]:
    gc.collect()
    return request.param


def double(x: Tensor) -> Tensor:
    y = x * 2
    z = y.alias()
    return z + 0


def test_a_scope_frees_all_memory_that_onlookers_refer_to(onlooker, window):
    live = memory.statistics().bytes_live
    with onlooker() as look:
        with new_dispose_scope() as scope:
            x = tensor.ones((N,))
            look()
            y = double(x)
            look()
            assert len(scope) == len(scope.disposables_view)
            assert window().created_in_scope_count == 4
        assert x.is_invalid
        assert y.is_invalid
        assert memory.statistics().bytes_live == live
        assert window().live_count == 0


def test_a_clone_copies_at_the_first_write_and_never_else(onlooker):
    with onlooker() as look, new_dispose_scope():
        x = tensor.ones((N,))
        look()
        start = memory.statistics()
        x.add_(1.0)
        assert memory.statistics().bytes_allocated == start.bytes_allocated
        y = x.clone()
        look()
        assert memory.statistics().bytes_live == start.bytes_live
        y[:1].add_(5.0)
        look()
        assert memory.statistics().bytes_live == start.bytes_live + BYTES
        y.add_(1.0)
        x.add_(1.0)
        assert memory.statistics().bytes_allocated == start.bytes_allocated + BYTES
        assert x[:2].tolist() == [3.0, 3.0]
        assert y[:2].tolist() == [8.0, 3.0]


def test_a_limit_counts_live_bytes_only(onlooker):
    with onlooker() as look, new_dispose_scope():
        x = tensor.ones((N,))
        memory.trim()
        now = memory.statistics()
        with memory.limit(now.bytes_live + now.bytes_pinned + 2 * BYTES + BYTES // 2):
            for _ in range(5):
                with new_dispose_scope():
                    y = x * 2
                    look()
                    _ = y + x
            x.add_(1.0)
            y = x.clone()
            y.add_(1.0)
        assert y[:1].tolist() == [3.0]


def test_a_donated_tensor_gives_its_memory_to_the_result(onlooker):
    with onlooker() as look, new_dispose_scope():
        x = tensor.ones((N,))
        look()
        start = memory.statistics()
        y = x.donate() * 2
        now = memory.statistics()
        assert now.donation_reuse_count == start.donation_reuse_count + 1
        assert now.bytes_allocated == start.bytes_allocated
        assert y[:1].tolist() == [2.0]


def test_backward_frees_the_graph_and_its_gradients_are_exact(onlooker):
    w = tensor.ones((N,), requires_grad=True)
    live, alive = memory.statistics().bytes_live, statistics.live_count
    with onlooker() as look:
        with new_dispose_scope():
            loss = (w * w).exp().sum()
            look()
            loss.backward()
            look()
        assert memory.statistics().bytes_live == live + BYTES
        assert statistics.live_count == alive + 1
    assert w.grad is not None
    assert w.grad[:1].item() == pytest.approx(5.436564)


def test_memory_held_by_a_tool_is_live_until_the_tool_releases_it(window):
    live = memory.statistics().bytes_live
    w = tensor.ones((N,), requires_grad=True)
    with new_dispose_scope():
        (w * w).exp().sum().backward()
        everything = gc.get_objects()
        arrays = [gc.get_referents(x) for x in everything if isinstance(x, Tensor)]  # as pympler's muppy does
    w.dispose()
    assert window().live_count == 0
    assert memory.statistics().bytes_live > live
    del everything, arrays
    assert memory.statistics().bytes_live == live


FINALIZERS = """
import gc

import tensor

KEPT = []


class Late:
    def __init__(self):
        self.cycle = self

    def __del__(self):
        KEPT.append(tensor.ones((5_000,)))


def run():
    x = tensor.ones((10_000,), requires_grad=True)
    for step in range(200):
        gc.set_threshold(3 + step % 40, 1, 1)
        Late()
        graphs = [(x * 2).exp() for _ in range(5)]
        del graphs
    gc.set_threshold(700, 10, 10)


run()
print(len(KEPT), all(each[0] == 1 for each in KEPT))
"""


def test_finalizers_that_create_tensors_run_at_any_moment() -> None:
    # In Python 3.11 the collector may run while a context variable changes. The finalizer changes it too.
    done = subprocess.run([sys.executable, "-c", FINALIZERS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, are_right = done.stdout.split()
    assert int(count) > 100
    assert are_right == "True"
