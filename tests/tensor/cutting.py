"""Settings under which three threads work on arrays from the pool of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import tensor
from tensor import memory


@contextmanager
def three_threads(pooled_from: int = 64) -> Iterator[None]:
    """Let three threads work on what is large enough; memory is pooled from so many bytes on."""
    threads = tensor.get_num_threads()
    settings = memory.configuration()
    tensor.set_num_threads(3)
    memory.configure(min_pooled_bytes=pooled_from)
    try:
        yield
    finally:
        memory.configure(**settings._asdict())
        tensor.set_num_threads(threads)
