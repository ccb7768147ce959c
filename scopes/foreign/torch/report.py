"""Report the memory of a scope's PyTorch tensors on each device."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scopes.core.disposable import current_dispose_scope
from scopes.foreign.torch import memory
from scopes.foreign.torch.library import torch
from scopes.tracking.reports import Cell, Report, Table, figure, size, words

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope


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


_HEADINGS = (("device", False), ("tensors", True), ("bytes", True), ("PyTorch's total", True))


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
            return Table("the scope owns no torch tensors", _HEADINGS, ())
        rows = []
        for row in self.rows:
            allocated = Cell("", -1) if row.allocated_bytes is None else size(row.allocated_bytes)
            rows.append((words(row.device), figure(row.count), size(row.nbytes), allocated))
        return Table("torch tensors of the scope, by device", _HEADINGS, rows)


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
