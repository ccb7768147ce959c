"""Reports of PyTorch's tensors in scopes: memory by device, what scopes kept, and what is still held.

Loaded when a program first uses one of them, because most programs use none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scopes._shared.naming import set_module
from scopes.adapters.torch import disposal, memory
from scopes.adapters.torch.keepers import kept_entries
from scopes.adapters.torch.library import torch
from scopes.core.scope import current_dispose_scope
from scopes.reports.leaks import Seen, Snapshot, holder_lines, is_created_throughout
from scopes.reports.tables import Cell, Report, Table, figure, line, size, words
from scopes.tracking.records import UNNAMED
from scopes.tracking.sites import Site
from scopes.tracking.tracking import current

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class DeviceRow:
    """The tensors of a scope on one device."""

    #: The name of the device, such as "cuda:0".
    device: str
    #: How many tensors the scope owns there, and their bytes. Shared memory counts once.
    count: int
    nbytes: int
    #: The memory of all of PyTorch's tensors there (``torch.cuda.memory_allocated``); None without CUDA.
    allocated_bytes: int | None


_DEVICE_HEADINGS = (("device", False), ("tensors", True), ("bytes", True), ("PyTorch's total", True))


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class DeviceReport(Report):
    """The memory of a scope's tensors on each device: see ``scopes.torch.memory_by_device``."""

    rows: tuple[DeviceRow, ...]

    @property
    def nbytes(self) -> int:
        """The memory in bytes, on all devices."""
        return sum(row.nbytes for row in self.rows)

    def _table(self) -> Table:
        if not self.rows:
            return Table("the scope owns no torch tensors", _DEVICE_HEADINGS, ())
        rows = []
        for row in self.rows:
            allocated = Cell("", -1) if row.allocated_bytes is None else size(row.allocated_bytes)
            rows.append((words(row.device), figure(row.count), size(row.nbytes), allocated))
        return Table("torch tensors of the scope, by device", _DEVICE_HEADINGS, rows)


@set_module("scopes.torch")
def memory_by_device(scope: DisposeScope | None = None) -> DeviceReport:
    """Return the number and bytes of the PyTorch tensors that `scope` owns on each device.

    Parameters
    ----------
    scope
        The scope; the current one for None.

    Examples
    --------
    >>> import scopes.torch, torch
    >>> from scopes import new_dispose_scope
    >>> with scopes.torch.owning(), new_dispose_scope() as scope:
    ...     x = torch.ones(250)
    ...     view = x[:10]
    ...     [(row.device, row.count, row.nbytes) for row in scopes.torch.memory_by_device().rows]
    [('cpu', 2, 1000)]
    """
    chosen = current_dispose_scope() if scope is None else scope
    counts: dict[str, int] = defaultdict(int)
    storages: dict[str, dict[int, int]] = defaultdict(dict)
    for x in () if chosen is None else chosen.disposables_view:
        if isinstance(x, torch.Tensor):
            name = memory.device(x)
            key, nbytes = memory.footprint(x)
            counts[name] += 1
            storages[name][key] = nbytes
    rows = [
        DeviceRow(name, count, sum(storages[name].values()), _allocated(name))
        for name, count in counts.items()
    ]
    return DeviceReport(tuple(sorted(rows, key=lambda row: -row.nbytes)))


def _allocated(device: str) -> int | None:
    return int(torch.cuda.memory_allocated(device)) if device.startswith("cuda") else None


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class KeptRow:
    """Tensors that outlived scopes of one name, because one attribute, cache or global keeps them."""

    #: The attribute of a class, the cache or the global that keeps them: "CatMetric.value".
    holder: str
    #: The name of the scope.
    scope: str
    #: How many tensors outlived such scopes so far.
    count: int
    #: How many of them are alive, and their bytes.
    alive: int
    nbytes: int


_KEPT_HEADINGS = (("kept", True), ("alive", True), ("bytes", True), ("held by", False), ("in scope", False))


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class KeptReport(Report):
    """The tensors that scopes did not dispose: see ``scopes.torch.kept``."""

    rows: tuple[KeptRow, ...]

    @property
    def nbytes(self) -> int:
        """The memory of the tensors that are alive, in bytes."""
        return sum(row.nbytes for row in self.rows)

    def _table(self) -> Table:
        if not self.rows:
            return Table("no torch tensor outlived its scope", _KEPT_HEADINGS, ())
        rows = [
            (figure(row.count), figure(row.alive), size(row.nbytes), words(row.holder), words(row.scope))
            for row in self.rows
        ]
        return Table("torch tensors that outlived their scope", _KEPT_HEADINGS, rows)


@set_module("scopes.torch")
def kept(scope: str | DisposeScope | None = None) -> KeptReport:
    """Return the tensors that scopes did not dispose at their end, and what keeps them.

    Parameters of modules and the state of optimizers are not listed.

    Parameters
    ----------
    scope
        A scope, or its name: only tensors that outlived scopes of this name. None: all tensors.

    Examples
    --------
    >>> import scopes.torch, torch
    >>> from scopes import new_dispose_scope
    >>> class Positions(torch.nn.Module):
    ...     def forward(self, x):
    ...         self.table = torch.arange(len(x))
    ...         return x + self.table
    >>> model = Positions()
    >>> with scopes.torch.owning(), new_dispose_scope("first step"):
    ...     y = model(torch.ones(3))
    >>> model.table
    tensor([0, 1, 2])
    >>> [row.holder for row in scopes.torch.kept("first step").rows]
    ['Positions.table']
    """
    name = scope if scope is None or isinstance(scope, str) else scope.name or UNNAMED
    rows = []
    for (holder, of), entry in list(kept_entries.items()):
        if name is None or name == of:
            alive = [x for x in (reference() for reference in list(entry.alive.values())) if x is not None]
            nbytes = sum(dict(map(memory.footprint, alive)).values())
            rows.append(KeptRow(holder, of, entry.count, len(alive), nbytes))
    return KeptReport(tuple(sorted(rows, key=lambda row: -row.nbytes)))


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class HeldRow:
    """Memory of the disposed tensors of one line that is still held by holders of one kind."""

    #: The line that created them; without lines if tracking was off.
    site: Site
    #: The names of the scopes that were open around it, the outermost first. If tracking was off: those of
    #: the scope whose end disposed the tensors.
    scope: tuple[str, ...]
    #: The bytes that are still held, and the device that they are on.
    nbytes: int
    device: str
    #: The kind of holder, as far as PyTorch shows it.
    by: str
    #: The line that created the holding view or graph; None if no tracked tensor is known to hold it. Then
    #: the bytes include all memory that the graphs of the tensors keep.
    holder: Site | None = None
    #: The number of tensors.
    count: int = 1
    #: Whether the line left such tensors throughout the run, and no tracked tensor holds them.
    is_growing: bool = False
    #: The name of the operation that created them, if tracking was off and they have one:
    #: "SavesItsResultBackward".
    op: str = ""

    @property
    def _created_by(self) -> Cell:
        if self.site.lines:
            return line(self.site)
        unknown = "an unknown line, because tracking was off"
        return words(f"{self.op}, {unknown}" if self.op else unknown)


_HELD_HEADINGS = (
    ("tensors", True),
    ("bytes", True),
    ("", False),
    ("device", False),
    ("held by", False),
    ("in scope", False),
    ("created by", False),
)


@set_module("scopes.torch")
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
            return Table("all memory of disposed torch tensors is free", _HELD_HEADINGS, ())
        rows = [
            (
                figure(row.count),
                size(row.nbytes),
                words("grows" if row.is_growing else ""),
                words(row.device),
                words(row.by if row.holder is None else f"{row.by}: {row.holder}"),
                words(" > ".join(row.scope)),
                row._created_by,
            )
            for row in self.rows
        ]
        return Table("memory of disposed torch tensors that is still held", _HELD_HEADINGS, rows)


@set_module("scopes.torch")
def still_held(scope: str | DisposeScope | None = None) -> HeldReport:
    """Return the memory that disposed tensors could not release yet: bytes, creators and holders.

    If objects in C++ refer to each other, such as a graph and a tensor that it saved, nothing frees them; a
    row names the line and the bytes. Tensors that were created while tracking was off have no line. Their
    rows have the scope whose end disposed them, and the name of the operation.

    Parameters
    ----------
    scope
        A scope, or its name: only tensors created in scopes of this name, or in scopes inside them. None: all
        tensors.

    Examples
    --------
    >>> import scopes, scopes.torch, torch
    >>> with scopes.track(), scopes.torch.owning(), scopes.new_dispose_scope("export"):
    ...     x = torch.ones(1000)
    ...     array = x.numpy()
    >>> [(row.nbytes, row.by) for row in scopes.torch.still_held("export").rows]
    [(4000, 'a view, a detached tensor, NumPy or another export')]
    >>> del array
    >>> scopes.torch.still_held("export").nbytes
    0
    """
    disposal.forget_freed()
    name = scope if scope is None or isinstance(scope, str) else scope.name or UNNAMED
    views, graphs = holder_lines()
    groups: dict[tuple[Any, ...], list[disposal.HeldStorage]] = defaultdict(list)
    for key, storage in list(disposal.storages.items()):
        if name is None or name in storage.scope:
            by, holder = storage.by, None
            if key in graphs:
                by, holder = disposal.GRAPH, graphs[key]
            elif key in views:
                by, holder = disposal.VIEW, views[key]
            kind = storage.site, storage.scope, storage.device, by, holder, storage.op
            groups[kind].append(storage)
    # Memory that other reports count, or other rows.
    seen = Seen()
    seen.update(views, graphs, disposal.storages)
    rows = [
        HeldRow(
            site,
            place,
            sum(storage.nbytes for storage in group)
            + (_kept_by_graphs(group, seen) if holder is None else 0),
            device,
            by,
            holder,
            len(group),
            holder is None and _is_growing(group),
            op,
        )
        for (site, place, device, by, holder, op), group in groups.items()
    ]
    disposal.trim()
    return HeldReport(tuple(sorted(rows, key=lambda row: -row.nbytes)), disposal.resident_bytes())


def _kept_by_graphs(group: Iterable[disposal.HeldStorage], seen: Seen) -> int:
    """Return the bytes of the memory that the graphs of disposed tensors keep, and add it to `seen`."""
    total = 0
    for storage in group:
        for key, nbytes in storage.kept_by_graph(seen):
            if nbytes is not None and key not in seen:
                seen.add(key)
                total += nbytes
    return total


def _is_growing(group: Iterable[disposal.HeldStorage]) -> bool:
    """Return whether the tensors were created throughout the tracked time."""
    tracker = current.tracker
    if tracker is None:
        return False
    records = [x.record for x in group if x.record is not None and x.tracker is tracker]
    return is_created_throughout(records, Snapshot(0, {}), tracker.closings, tracker.serial)
