"""Report memory of disposed tensors that is not freed yet, because a graph, a view or an export needs it.

Only disposals while tracking is on are recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from scopes.foreign.torch import heap
from scopes.foreign.torch.library import torch
from scopes.tracking.leaks import holder_lines
from scopes.tracking.paths import UNNAMED
from scopes.tracking.reports import Report, Table, line, size, words
from scopes.tracking.sites import Site
from scopes.tracking.tracking import current, record_of

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

_StorageWeakRef = torch.multiprocessing.reductions.StorageWeakRef


@dataclass(frozen=True, slots=True)
class HeldRow:
    """Memory of one or more disposed tensors that is still held."""

    #: The line that created the first of them.
    site: Site
    #: The names of the scopes that were open around it, the outermost first.
    scope: tuple[str, ...]
    #: The bytes that are still held, and the device that they are on.
    nbytes: int
    device: str
    #: The kind of holder, as far as PyTorch shows it.
    by: str
    #: The line that created the holding view or graph; None if no tracked tensor is known to hold it.
    holder: Site | None = None


_HEADINGS = (
    ("bytes", True),
    ("device", False),
    ("held by", False),
    ("in scope", False),
    ("created by", False),
)


@dataclass(frozen=True, slots=True)
class HeldReport(Report):
    """The memory that disposed tensors could not release: see ``scopes.torch.still_held``."""

    rows: tuple[HeldRow, ...]
    #: The resident size of the process, in bytes; None if the system does not report it.
    resident_bytes: int | None = None

    @property
    def nbytes(self) -> int:
        """The memory in bytes."""
        return sum(row.nbytes for row in self.rows)

    def _table(self) -> Table:
        if not self.rows:
            return Table("all memory of disposed torch tensors is free", _HEADINGS, ())
        rows = [
            (
                size(row.nbytes),
                words(row.device),
                words(row.by if row.holder is None else f"{row.by}: {row.holder}"),
                words(" > ".join(row.scope)),
                line(row.site),
            )
            for row in self.rows
        ]
        return Table("memory of disposed torch tensors that is still held", _HEADINGS, rows)


GRAPH = "a graph, for backward"
# A graph and a DLPack export both refer to the tensor itself. But PyTorch does not export tensors that
# require a gradient.
GRAPH_OR_DLPACK = "a graph, for backward, or a DLPack export"
SHARED = "a view, a detached tensor, NumPy or another export"
VIEW = "a view or a detached tensor"
KEPT = "PyTorch (retain_grad, a profiler or another thread): the tensor's last reference"

# By the address of the storage: a weak reference to it, and the row.
_held: dict[int, tuple[Any, HeldRow]] = {}


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
    if len(_held) > 1000:
        _forget()
    weak = _StorageWeakRef(storage)
    if weak.cdata not in _held or _held[weak.cdata][0].expired():
        row = HeldRow(record.site, record.scope, storage.nbytes(), str(storage.device), by)
        _held[weak.cdata] = weak, row


def _forget() -> None:
    for key in [key for key, (weak, _) in list(_held.items()) if weak.expired()]:
        _held.pop(key, None)


def _now(row: HeldRow, key: int, views: dict[int, Site], graphs: dict[int, Site]) -> HeldRow:
    """Return `row` with the current holder of the storage `key`, if that is a tracked tensor."""
    if key in graphs:
        return replace(row, by=GRAPH, holder=graphs[key])
    if key in views:
        return replace(row, by=VIEW, holder=views[key])
    return row


def still_held(scope: str | DisposeScope | None = None) -> HeldReport:
    """Return the memory that disposed tensors could not release yet: bytes, creators and holders.

    Only tensors that were disposed during tracking are included.

    Parameters
    ----------
    scope
        A scope, or its name: only tensors created in scopes of this name, or in scopes inside them. None: all
        tensors.

    Examples
    --------
    >>> import scopes, scopes.torch, torch
    >>> with scopes.track(), scopes.torch.owning(), scopes.new_dispose_scope("step"):
    ...     x = torch.ones(1000)
    ...     array = x.numpy()
    >>> [(row.nbytes, row.by) for row in scopes.torch.still_held("step").rows]
    [(4000, 'a view, a detached tensor, NumPy or another export')]
    >>> del array
    >>> scopes.torch.still_held().nbytes
    0
    """
    _forget()
    name = scope if scope is None or isinstance(scope, str) else scope.name or UNNAMED
    views, graphs = holder_lines()
    rows = [
        _now(row, key, views, graphs)
        for key, (_, row) in list(_held.items())
        if name is None or name in row.scope
    ]
    heap.trim()
    return HeldReport(tuple(sorted(rows, key=lambda row: -row.nbytes)), heap.resident_bytes())
