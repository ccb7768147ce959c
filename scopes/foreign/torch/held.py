"""Record memory of disposed tensors that is not freed yet, because a graph, a view or an export needs it.

While tracking is on, the record has the line that created the tensor. Otherwise it has the scope whose end
disposed the tensor, and the name of the operation that created it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scopes.core.foreign import names_of_ended_scope
from scopes.foreign.torch import memory
from scopes.foreign.torch.library import torch
from scopes.tracking.paths import UNNAMED
from scopes.tracking.sites import Site
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


#: The line of a tensor that was created while tracking was off.
UNKNOWN = Site(())


class Held:
    """The storage of a disposed tensor, as a weak reference, and what is known about it."""

    __slots__ = ("by", "device", "nbytes", "op", "owners", "record", "scope", "site", "storage", "tracker")

    def __init__(self, storage: Any, by: str, record: Record | None, tracker: Tracker | None) -> None:
        self.storage: Any = _StorageWeakRef(storage)
        # The tensors that have the storage now. C++ keeps their Python objects alive while a graph refers to
        # them.
        self.owners: list[weakref.ref[Any]] = []
        self.nbytes: int = storage.nbytes()
        self.device = str(storage.device)
        self.record, self.tracker = record, tracker
        self.site: Site = UNKNOWN if record is None else record.site
        self.scope: tuple[str, ...] = () if record is None else record.scope
        # The name of the operation, if the line is unknown.
        self.op = ""
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


_use_count: Any = getattr(torch._C, "_storage_Use_Count", None)
# Whether this version of PyTorch tells how many references a storage has.
can_count = _use_count is not None
# The references of a tensor and of the Python object of its storage.
_OWN_USES = 2

# The storages by address, and the number of them from which the freed ones are forgotten.
storages: dict[int, Held] = {}
_LEAST = 1000
_most = _LEAST


def note(x: Any, owner: Any) -> None:
    """Record what holds the memory of the disposed `x`. `owner` has this memory now."""
    tracker = current.tracker
    record = None if tracker is None else record_of(x)
    is_shared = owner._use_count() > 1
    if record is None and not can_count:
        return
    try:
        storage = owner.untyped_storage()
    except (RuntimeError, NotImplementedError):  # no storage: sparse, nested
        return
    if record is None and not is_shared and x is not owner:
        if _use_count(storage._cdata) <= _OWN_USES:
            return  # it is free as soon as the caller has released `owner`
        base = owner._base
        if base is not None and not getattr(type(base), "is_invalid", False):
            return  # the memory of the tensor that `x` was a view of
    if x is owner:
        by = KEPT
    elif is_shared:
        by = GRAPH if owner.requires_grad else GRAPH_OR_DLPACK
    else:
        by = SHARED
    if len(storages) > _most:
        forget_freed()
    known = storages.get(storage._cdata)
    if known is None or known.storage.expired():
        known = storages[storage._cdata] = Held(storage, by, record, tracker)
        if record is None:
            known.scope = tuple([name or UNNAMED for name in names_of_ended_scope(x)])
    if known.record is None and not known.op and owner.grad_fn is not None:
        known.op = owner.grad_fn.name()
    if is_shared or x is owner:
        if len(known.owners) % _LEAST == _LEAST - 1:
            known.owners = [each for each in known.owners if each() is not None]
        known.owners.append(weakref.ref(owner))


def forget_freed() -> None:
    """Forget the storages that are free."""
    global _most
    for key in [key for key, each in list(storages.items()) if each.storage.expired()]:
        storages.pop(key, None)
    _most = max(_LEAST, 2 * len(storages))
