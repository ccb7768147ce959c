"""What a graph holds: its nodes, its memory; and that nothing is left of it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import tensor
from scopes import statistics
from tensor import Tensor, memory
from tensor.tape.recording import Node


def leaf(*values: float) -> Tensor:
    return tensor.tensor(list(values), requires_grad=True)


def nodes() -> int:
    """Count the nodes of all graphs, those of leaves too."""
    return sum(issubclass(type(x), Node) for x in gc.get_objects())


def bytes_live() -> int:
    return memory.statistics().bytes_live


@contextmanager
def leaving_nothing() -> Iterator[None]:
    """Run a block without the collector; when it ends all is back, and nothing waits to be collected."""
    bytes_live()  # The first call imports a module. Free-threaded Pythons leave its code to the collector.
    gc.collect()
    before = (nodes(), bytes_live(), statistics.live_count)
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        assert (nodes(), bytes_live(), statistics.live_count) == before
        gc.collect()
        assert sorted({type(x).__qualname__ for x in gc.garbage}) == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
