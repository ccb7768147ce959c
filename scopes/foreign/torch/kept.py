"""Tensors that scopes did not dispose at their end, because something else keeps them."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scopes.foreign.torch import memory
from scopes.foreign.torch.keeping import KEEPERS
from scopes.tracking.paths import UNNAMED
from scopes.tracking.reports import Report, Table, figure, size, words

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope


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


_HEADINGS = (("kept", True), ("alive", True), ("bytes", True), ("held by", False), ("in scope", False))


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
            return Table("no torch tensor outlived its scope", _HEADINGS, ())
        rows = [
            (figure(row.count), figure(row.alive), size(row.nbytes), words(row.holder), words(row.scope))
            for row in self.rows
        ]
        return Table("torch tensors that outlived their scope", _HEADINGS, rows)


class _Entry:
    """Counts the tensors that one holder kept from scopes of one name."""

    def __init__(self) -> None:
        self.count = 0
        self.alive: dict[int, weakref.ref[Any]] = {}

    def note(self, x: Any) -> None:
        self.count += 1
        key = id(x)
        self.alive[key] = weakref.ref(x, lambda _: self.alive.pop(key, None))


_entries: dict[tuple[str, str], _Entry] = {}
# The most rows. Further ones are not recorded, because a longer report is not useful.
_MAX_ENTRIES = 1000


def find(scope: DisposeScope, sought: dict[int, Any], older: int, is_strict: bool) -> dict[int, bool]:
    """Find the tensors in `sought` that outlive `scope`, and record them for `kept`.

    The result has their ids, with True for tensors that then have no owner; see ``Adapter.find_kept``.
    """
    found = KEEPERS.find(sought, older, is_strict)
    for key, (holder, _) in found.items():
        row = holder, scope.name or UNNAMED
        if holder and (row in _entries or len(_entries) < _MAX_ENTRIES):
            _entries.setdefault(row, _Entry()).note(sought[key])
    return {key: is_good for key, (_, is_good) in found.items()}


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
    for (holder, of), entry in list(_entries.items()):
        if name is None or name == of:
            alive = [x for x in (reference() for reference in list(entry.alive.values())) if x is not None]
            nbytes = sum(dict(map(memory.footprint, alive)).values())
            rows.append(KeptRow(holder, of, entry.count, len(alive), nbytes))
    return KeptReport(tuple(sorted(rows, key=lambda row: -row.nbytes)))
