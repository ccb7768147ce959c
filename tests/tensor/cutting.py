"""Settings under which any work is cut into pieces for several threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensor
from tensor import memory
from tensor.kernels import selecting, splitting
from tensor.lowlevel import configure_threads


@contextmanager
def three_threads_for_all(pooled_from: int = 64) -> Iterator[None]:
    """Let three threads work on whatever has some elements; the pool serves from so many bytes on."""
    threads, sizes = tensor.get_num_threads(), dict(splitting.least.by_cost)
    settings = memory.configuration()
    tensor.set_num_threads(3)
    configure_threads(cheap=0, dear=0, dearest=0)
    least_bits, selecting._LEAST_BITS = selecting._LEAST_BITS, 0
    memory.configure(min_pooled_bytes=pooled_from)
    try:
        yield
    finally:
        memory.configure(**settings._asdict())
        selecting._LEAST_BITS = least_bits
        configure_threads(**sizes)
        tensor.set_num_threads(threads)
