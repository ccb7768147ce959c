"""Settings under which any work is cut into pieces for several threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensor
from tensor import _splitting, memory
from tensor.lowlevel import configure_threads


@contextmanager
def three_threads_for_all() -> Iterator[None]:
    """Let three threads work on whatever has some elements."""
    threads, sizes = tensor.get_num_threads(), dict(_splitting.least.by_cost)
    tensor.set_num_threads(3)
    configure_threads(cheap=0, dear=0, dearest=0)
    memory.configure(min_pooled_bytes=64)
    try:
        yield
    finally:
        memory.configure(min_pooled_bytes=2**17)
        configure_threads(**sizes)
        tensor.set_num_threads(threads)
