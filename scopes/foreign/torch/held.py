"""Record memory of disposed tensors that is not freed yet, because a graph, a view or an export needs it.

Only disposals while tracking is on are recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes.foreign.torch.library import torch
from scopes.tracking.tracking import current, record_of

if TYPE_CHECKING:
    from scopes.tracking.records import Record

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

    __slots__ = ("by", "device", "nbytes", "scope", "site", "weak")

    def __init__(self, weak: Any, storage: Any, record: Record, by: str) -> None:
        self.weak = weak
        self.site, self.scope = record.site, record.scope
        self.nbytes: int = storage.nbytes()
        self.device = str(storage.device)
        self.by = by


# The storages by address.
storages: dict[int, Held] = {}


def note(x: Any, owner: Any) -> None:
    """Record what holds the memory of the disposed `x`, if tracking is on. `owner` has this memory now."""
    if current.tracker is None:
        return
    record = record_of(x)
    if record is None:
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
    if len(storages) > 1000:
        forget_freed()
    weak = _StorageWeakRef(storage)
    if weak.cdata not in storages or storages[weak.cdata].weak.expired():
        storages[weak.cdata] = Held(weak, storage, record, by)


def forget_freed() -> None:
    """Forget the storages that are free."""
    for key in [key for key, each in list(storages.items()) if each.weak.expired()]:
        storages.pop(key, None)
