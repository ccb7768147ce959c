"""Who holds the large buffers: for reports of memory and for errors that say there is none left."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

from tensor.core.tensor import StorageReference, TensorCore, on_same_storage
from tensor.memory.buffer import large_buffers
from tensor.memory.holders import Held


def held_buffers() -> Iterator[Held]:
    """Yield each buffer from 16 KiB on, and the classes of its tensors; ``the graph`` for saved values."""
    names: dict[int, set[str]] = {}
    storages: dict[int, int] = {}
    seen: set[int] = set()
    for tensor in _tensors():
        buffer = tensor._buffer
        if buffer is None or id(tensor) in seen:
            continue
        together: list[StorageReference] = on_same_storage(tensor)
        seen.update(map(id, together))
        names.setdefault(id(buffer), set()).update(type(each).__name__ for each in together)
        storages[id(buffer)] = storages.get(id(buffer), 0) + 1
    for buffer in large_buffers():
        by = names.get(id(buffer), set())
        if buffer.sharers > storages.get(id(buffer), 0):
            by.add("the graph")
        root = buffer.root
        yield Held(str(root.dtype), root.shape, buffer.nbytes, buffer.sharers == 0, tuple(by))


def _tensors() -> Iterator[Any]:
    """Yield all tensors that are alive."""
    kinds = list(_below(TensorCore))
    # An object refers to its class. Not gc.get_objects(): among all objects are tuples that other threads are
    # just making, which must have one reference until they are whole.
    return (
        (thing for thing in gc.get_referrers(*kinds) if isinstance(thing, TensorCore)) if kinds else iter(())
    )


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    inner: type[Any]
    for inner in kind.__subclasses__():
        yield inner
        yield from _below(inner)
