"""Describe the disposables that a test or a block left alive: their creation lines and scopes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from scopes._shared.sizes import format_bytes
from scopes.adapters.foreign import find_kept_by_older
from scopes.core.scope import owner_of
from scopes.reports.leaks import kept_by_each
from scopes.tracking import tracking
from scopes.tracking.records import Record
from scopes.tracking.sites import Site

Items = list[tuple[Record, Any]]

# The number of lines that are listed, largest first.
_MAX_LINES = 20


def left(alive: Callable[[], Items]) -> Items:
    """Return ``alive()``; collect garbage before if anything is alive and the collector is enabled."""
    if alive() and gc.isenabled():
        gc.collect()
    return alive()


def not_kept(items: Items, older: int) -> Items:
    """Return `items` without objects that a library, a module, an optimizer or a cache keeps.

    `older` is the result of `count_keepers` before the items were created. Later keepers are ignored.
    """
    kept = find_kept_by_older([x for _, x in items], older) if items else set()
    return [item for item in items if id(item[1]) not in kept]


def alive_since(serial: int) -> Items:
    """Return the living disposables with a serial number above `serial`."""
    tracker = tracking.current.tracker
    return [] if tracker is None else [item for item in tracker.alive() if item[0].serial > serial]


def others_than(items: Items) -> Items:
    """Return all other living disposables that are tracked."""
    tracker = tracking.current.tracker
    known = {id(record) for record, _ in items}
    return [] if tracker is None else [item for item in tracker.alive() if id(item[0]) not in known]


def alive_of(records: Iterable[Record]) -> Items:
    """Return the living disposables of `records`, even if tracking has ended."""
    found = []
    for record in records:
        x = record()
        if x is not None and record.ended is None and not getattr(x, "is_invalid", False):
            found.append((record, x))
    return found


class Leftovers:
    """Report of leftovers by creation line. It holds text and numbers, and no disposables.

    Memory that `items` share with `others` is not counted.
    """

    def __init__(self, items: Items, others: Iterable[tuple[Record, Any]] = ()) -> None:
        self.count: int = len(items)
        self.nbytes: int = 0
        self._groups: dict[Site, tuple[Counter[str], list[int]]] = {}
        self._paths = Counter([record.scope for record, _ in items])
        self._owners = Counter([owner for _, x in items if (owner := _label_of_owner(x)) is not None])
        for (record, _), kept in zip(items, kept_by_each(items, others), strict=True):
            kinds, sizes = self._groups.setdefault(record.site, (Counter(), []))
            kinds[record.kind] += 1
            sizes.append(kept.nbytes)
            self.nbytes += kept.nbytes

    def __str__(self) -> str:
        """Return their number and the memory that they keep."""
        return f"{self.count} disposable{'s' * (self.count != 1)}, {format_bytes(self.nbytes)}"

    def lines(self) -> list[str]:
        """Return the creation lines, and the tree of scopes around the creations."""
        lines = []
        rows = sorted(self._groups.items(), key=lambda row: -sum(row[1][1]))
        for site, (kinds, sizes) in rows[:_MAX_LINES]:
            amount = ", ".join(f"{count} x {kind}" for kind, count in sorted(kinds.items()))
            lines += [f"  {site}", f"      {site.text}", f"      -> {amount}, {format_bytes(sum(sizes))}"]
        rest = rows[_MAX_LINES:]
        if rest:
            nbytes = sum([sum(sizes) for _, (_, sizes) in rest])
            lines.append(f"  and {len(rest)} more lines, {format_bytes(nbytes)}")
        return [
            *lines,
            *self._tree(),
            *[f"  {count} owned by {name}" for name, count in self._owners.items()],
        ]

    def _tree(self) -> list[str]:
        counts: Counter[tuple[str, ...]] = Counter()
        for path, count in self._paths.items():
            for end in range(1, len(path) + 1):
                counts[path[:end]] += count
        if not counts:
            return []
        lines = ["  created in these scopes:"]
        lines += [f"    {'  ' * (len(path) - 1)}{path[-1]}: {counts[path]}" for path in sorted(counts)]
        if self._paths[()]:
            lines.append(f"    outside all scopes: {self._paths[()]}")
        return lines


def _label_of_owner(x: object) -> str | None:
    owner = owner_of(x)
    if owner is None:
        return None
    return (
        "a scope that is still open"
        if owner.name is None
        else f"the scope {owner.name!r}, which is still open"
    )
