"""Record memory of disposed tensors that is not freed yet, because a graph, a view or an export needs it.

Only disposals while tracking is on are recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scopes.foreign.torch import memory
from scopes.foreign.torch.library import torch
from scopes.tracking.tracking import current, record_of

if TYPE_CHECKING:
    from scopes.tracking.records import Record, Tracker

_StorageWeakRef = torch.multiprocessing.reductions.StorageWeakRef

GRAPH = "a graph, for backward"
# A graph and a DLPack export both refer to the tensor itself. But PyTorch does not export tensors that
# require a gradient.
GRAPH_OR_DLPACK = "a graph, for backward, or a DLPack export"
SHARED = "a view, a detached tensor, NumPy or another export"
VIEW = "a view or a detached tensor"
KEPT = "PyTorch (retain_grad, a profiler or another thread): the tensor's last reference"


class Held:
    """The storage of a disposed tensor, as a weak reference, and what is known about it."""

    __slots__ = ("by", "device", "nbytes", "owners", "record", "storage", "tracker")

    def __init__(self, storage: Any, record: Record, tracker: Tracker, by: str) -> None:
        self.storage: Any = _StorageWeakRef(storage)
        # The tensors that have the storage now. C++ keeps their Python objects alive while a graph refers to
        # them.
        self.owners: list[weakref.ref[Any]] = []
        self.nbytes: int = storage.nbytes()
        self.device = str(storage.device)
        self.record, self.tracker = record, tracker
        self.by = by

    def kept_by_graph(self, seen: set[int]) -> Iterator[tuple[int, int | None]]:
        """Yield the footprints of the memory that graphs of the tensors keep; see ``Adapter.keeps``."""
        for reference in self.owners:
            owner = reference()
            if owner is None:
                continue
            with torch._C.DisableTorchFunction():
                owner._fix_weakref()
                base = owner._base
            yield from memory.keeps(owner, seen)
            if base is not None:
                yield from memory.keeps(base, seen)


# The storages by address, and the number of them from which the freed ones are forgotten.
storages: dict[int, Held] = {}
_LEAST = 1000
_most = _LEAST


def note(x: Any, owner: Any) -> None:
    """Record what holds the memory of the disposed `x`, if tracking is on. `owner` has this memory now."""
    tracker = current.tracker
    record = record_of(x)
    if tracker is None or record is None:
        return
    try:
        storage = owner.untyped_storage()
    except (RuntimeError, NotImplementedError):  # no storage: sparse, nested
        return
    if x is owner:
        by = KEPT
    elif owner._use_count() > 1:
        by = GRAPH if owner.requires_grad else GRAPH_OR_DLPACK
    else:
        by = SHARED
    if len(storages) > _most:
        forget_freed()
    known = storages.get(storage._cdata)
    if known is None or known.storage.expired():
        known = storages[storage._cdata] = Held(storage, record, tracker, by)
    known.owners.append(weakref.ref(owner))


def forget_freed() -> None:
    """Forget the storages that are free."""
    global _most
    for key in [key for key, each in list(storages.items()) if each.storage.expired()]:
        storages.pop(key, None)
    _most = max(_LEAST, 2 * len(storages))
