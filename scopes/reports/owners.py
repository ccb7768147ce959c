"""What owns the memory: parameters, gradients, optimizers, data, activations, other tensors, caches.

The report is for the moment at which memory is short. It allocates little, and runs no code of the user.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes._shared.stderr import write_to_stderr
from scopes.core.scope import Disposable, footprint_of, keeps_of
from scopes.reports.leak_report import lines_of
from scopes.reports.leaks import Seen, line_of, without_collection
from scopes.reports.tables import Cell, Report, Table, figure, line, size, words
from scopes.tracking import tracking
from scopes.tracking.holders import Effort, holders_of, searching_error
from scopes.tracking.members import members_of
from scopes.tracking.memory_owners import cache_figures, roles, tensor_class_of
from scopes.tracking.meters import memory_figures
from scopes.tracking.records import Record, Tracker
from scopes.tracking.shortage import is_out_of_memory, release
from scopes.tracking.sites import Site

# The number of lines whose holders are searched, and the references that the search follows: fewer than for
# a report of leaks, because memory is short.
_MAX_HELD, _MAX_REFERENCES = 3, 30_000
# The most objects in an optimizer's state or a data set that are looked at.
_MAX_INSIDE = 100_000
# What an error's note shows.
_MAX_NOTED = 8

PARAMETERS, BUFFERS, GRADIENTS, OPTIMIZER, DATA = "parameters", "buffers", "gradients", "optimizer", "data"
ACTIVATIONS, TENSORS, CACHE, UNKNOWN = "activations", "tensors", "cache", "unknown"
_NOWHERE = Site(())


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class OwnerRow:
    """Memory with one owner."""

    #: What the memory is for: ``"parameters"``, ``"buffers"``, ``"gradients"``, ``"optimizer"``, ``"data"``,
    #: ``"activations"`` (saved for backward), ``"tensors"`` (all others), ``"cache"``, ``"unknown"``.
    kind: str
    #: The class of the module, the optimizer or the data set; words for a cache and for unknown memory.
    owner: str
    #: The bytes. Memory that several tensors share counts once, for the first of the kinds above.
    nbytes: int
    #: The number of buffers; 0 for a cache.
    count: int
    #: The part of all memory of the report, from 0 to 1.
    share: float = 0.0
    #: The line that created it, for activations and other tensors; without lines if it is unknown.
    site: Site = _NOWHERE
    #: The holder, if the search for the largest rows found one.
    holder: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        return {
            "kind": self.kind,
            "owner": self.owner,
            "bytes": self.nbytes,
            "count": self.count,
            "share": self.share,
            "lines": lines_of(self.site),
            "holder": self.holder,
        }

    def _cells(self) -> tuple[Cell, ...]:
        held = f"held by {self.holder}" if self.holder else ""
        unknown = "an unknown line" if self.kind in (ACTIVATIONS, TENSORS) else ""
        where = line(self.site, held) if self.site.lines else Cell(unknown, unknown, held)
        return (
            words(self.kind),
            size(self.nbytes),
            Cell(f"{self.share:.1%}", self.share),
            Cell("", 0) if self.kind in (CACHE, UNKNOWN) else figure(self.count),
            words(self.owner),
            where,
        )


_HEADINGS = (
    ("memory", False),
    ("bytes", True),
    ("share", True),
    ("buffers", True),
    ("of", False),
    ("created by", False),
)


@set_module("scopes")
@dataclass(frozen=True, slots=True)
class OwnerReport(Report):
    """What owns the memory, largest first: see ``owners``.

    ``str(report)`` is a table. ``print()`` writes the table with ``rich`` if it is installed. ``to_html()``
    returns a page, ``to_dict()`` plain data. Notebooks show it as a table.
    """

    rows: tuple[OwnerRow, ...]
    #: What the report could not see, in words; empty if there is nothing to say.
    uncertain: str = ""

    @property
    def nbytes(self) -> int:
        """The bytes of all rows."""
        return sum(row.nbytes for row in self.rows)

    def by_kind(self) -> dict[str, int]:
        """Return the bytes of each kind of memory, largest first.

        Examples
        --------
        >>> import nn, scopes
        >>> with scopes.track():
        ...     model = nn.Linear(10, 10, bias=False)
        ...     scopes.owners().by_kind()["parameters"] >= 400
        True
        """
        found: Counter[str] = Counter()
        for row in self.rows:
            found[row.kind] += row.nbytes
        return dict(found.most_common())

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        rows = [row.to_dict() for row in self.rows]
        return {"bytes": self.nbytes, "uncertain": self.uncertain, "rows": rows}

    def _table(self) -> Table:
        kinds = ", ".join([f"{kind} {format_bytes(nbytes)}" for kind, nbytes in self.by_kind().items()])
        title = f"{format_bytes(self.nbytes)}: {kinds}" if self.rows else "no memory of tensors is known"
        if self.uncertain:
            title = f"{title}. {self.uncertain}"
        return Table(title, _HEADINGS, [row._cells() for row in self.rows])


@set_module("scopes")
def owners() -> OwnerReport:
    """Return what owns the memory of tensors now: parameters, gradients, optimizers, data, activations, ...

    Call it where you catch an error for a lack of memory, while tracking is on. ``disposescope run`` prints
    the report when such an error ends the program. An error that leaves a block ``with track():`` has the
    largest rows as a note.

    Modules, optimizers and data sets are those that the garbage collector knows. Memory that a graph saved
    for backward is "activations", with the line that created it. If its tensor is gone, this is the last line
    that created a tensor there. Tensors from before tracking are found in modules, optimizers and data sets
    only. The report is of this moment: what the error has freed on its way is not in it.

    Raises
    ------
    RuntimeError
        If tracking is off.

    Examples
    --------
    >>> import scopes, tensor
    >>> with scopes.track():
    ...     x = tensor.ones((250,), requires_grad=True)
    ...     y = x.exp()
    ...     report = scopes.owners()
    >>> [(row.kind, row.nbytes) for row in report.rows if row.kind in ("activations", "tensors")]
    [('activations', 1000), ('tensors', 1000)]
    """
    tracker = tracking.current.tracker
    if tracker is None:
        raise RuntimeError(
            "tracking is off, so what owns the memory is unknown. Run the code inside "
            "`with scopes.track():`, or the program as `disposescope run script.py`"
        )
    with without_collection():
        return _Search(tracker).report()


class _Search:
    """One search for the owners of all memory. What is found first owns memory that several share."""

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        self._claimed: set[int] = set()
        # By kind, owner and line: the number of buffers, and their bytes.
        self._sums: dict[tuple[str, str, Site], list[int]] = {}
        self._own_bytes = 0
        # For each line of the rest: tensors that it created, for the search of holders.
        self._objects: dict[tuple[str, str, Site], list[Any]] = {}
        self._is_cut = False

    def report(self) -> OwnerReport:
        modules, optimizers, data = _instances()
        names = {type(module).__name__ for module in modules}
        for owner, module in _roots_of(modules):
            self._add_members(owner, module)
        for optimizer in optimizers:
            self._add_inside(OPTIMIZER, type(optimizer).__name__, _attribute(optimizer, "state"))
        for each in data:
            self._add_inside(DATA, type(each).__name__, _namespace(each))
        modules.clear()  # they must not be holders
        optimizers.clear()
        data.clear()
        alive = self._tracker.alive()
        for _, x in alive:
            gradient = _gradient_of(x)
            if gradient is not None:
                self._claim(GRADIENTS, "tensors without a module", gradient)
        self._add_graphs(alive, names)
        for record, x in alive:
            self._claim(TENSORS, "", x, line_of(record))
        rows = [
            OwnerRow(kind, owner, nbytes, count, site=site)
            for (kind, owner, site), (count, nbytes) in self._sums.items()
            if nbytes
        ]
        rows += self._rest()
        total = max(sum([row.nbytes for row in rows]), 1)
        rows.sort(key=lambda row: (-row.nbytes, row.kind, row.owner, str(row.site)))
        rows = [replace(row, share=row.nbytes / total) for row in rows]
        alive.clear()
        return OwnerReport(tuple(self._with_holders(rows)), self._uncertain())

    def _claim(self, kind: str, owner: str, x: Any, site: Site = _NOWHERE) -> None:
        """Count the memory of the tensor `x` for an owner, unless it has one."""
        key, nbytes = _footprint(x)
        self._claim_memory(kind, owner, site, key, nbytes, is_own=isinstance(x, Disposable))
        if site.lines and nbytes:
            self._objects.setdefault((kind, owner, site), []).append(x)

    def _claim_memory(
        self, kind: str, owner: str, site: Site, key: int, nbytes: int, *, is_own: bool
    ) -> None:
        if not nbytes or key in self._claimed:
            return
        self._claimed.add(key)
        sums = self._sums.setdefault((kind, owner, site), [0, 0])
        sums[0] += 1
        sums[1] += nbytes
        self._own_bytes += nbytes * is_own

    def _add_members(self, owner: str, root: Any) -> None:
        """Count the parameters, buffers and gradients of a module and the modules in it."""
        stack, seen = [root], {id(root)}
        while stack:
            for _, x in _members(stack.pop()):
                if id(x) in seen:
                    continue
                seen.add(id(x))
                if tensor_class_of(x) is None:
                    stack.append(x)
                    continue
                is_parameter = any(base.__name__ == "Parameter" for base in type(x).__mro__)
                self._claim(PARAMETERS if is_parameter else BUFFERS, owner, x)
                gradient = _gradient_of(x)
                if gradient is not None:
                    self._claim(GRADIENTS, owner, gradient)

    def _add_inside(self, kind: str, owner: str, container: Any) -> None:
        """Count the tensors in the dicts, lists, tuples and attributes of `container`."""
        stack, seen = [container], {id(container)}
        while stack:
            x = stack.pop()
            if tensor_class_of(x) is not None:
                self._claim(kind, owner, x)
                continue
            for inner in _parts_of(x):
                if id(inner) not in seen and len(seen) < _MAX_INSIDE:
                    seen.add(id(inner))
                    stack.append(inner)
            self._is_cut = self._is_cut or len(seen) >= _MAX_INSIDE

    def _add_graphs(self, alive: list[tuple[Record, Any]], names: set[str]) -> None:
        """Count what graphs have saved for backward, by the line that created it."""
        seen = Seen()
        for record, x in alive:
            try:
                kept = list(keeps_of(x, seen))
            except (AttributeError, RuntimeError):
                continue  # another thread is changing the graph
            for key, nbytes in kept[1:]:  # the first is its own memory
                if nbytes is not None:
                    site = self._tracker.creator_of(key) or line_of(record)
                    is_own = isinstance(x, Disposable)
                    name, _, method = site.function.rpartition(".")
                    name = name.rpartition(".")[2]
                    owner = name if method == "forward" and name in names else ""
                    self._claim_memory(ACTIVATIONS, owner, site, key, nbytes, is_own=is_own)
        seen.held.clear()

    def _rest(self) -> Iterator[OwnerRow]:
        live = cached = 0
        for figures in memory_figures:
            more_live, more_cached = figures()
            live, cached = live + more_live, cached + more_cached
        if cached:
            yield OwnerRow(CACHE, "free blocks of tensor.memory: memory.trim() returns them", cached, 0)
        for caches in cache_figures:
            for name, nbytes in caches():
                if nbytes > 0:
                    yield OwnerRow(CACHE, name, nbytes, 0)
        if live > self._own_bytes:
            what = "created before tracking, or by a running operation"
            yield OwnerRow(UNKNOWN, what, live - self._own_bytes, 0)

    def _with_holders(self, rows: list[OwnerRow]) -> Iterator[OwnerRow]:
        wanted: dict[tuple[str, str, Site], list[Any]] = {}
        for row in rows:
            key = row.kind, row.owner, row.site
            if key in self._objects and len(wanted) < _MAX_HELD:
                wanted[key] = self._objects[key]
        self._objects = {}
        found: dict[Any, Any] = {}
        if wanted:
            try:
                found = holders_of(wanted, Effort(_MAX_REFERENCES))
            except (AttributeError, RuntimeError):  # another thread is changing the objects
                found = {}
        for row in rows:
            holder = found.get((row.kind, row.owner, row.site))
            yield row if holder is None else replace(row, holder=holder.text)

    def _uncertain(self) -> str:
        frozen = gc.get_freeze_count()
        parts = []
        if frozen:
            hidden = "modules, optimizers and data sets among them are unknown"
            parts.append(f"gc.freeze() hides {frozen:,} objects: {hidden}")
        if self._is_cut:
            parts.append(f"Of large data sets, the first {_MAX_INSIDE:,} objects were looked at")
        return ". ".join(parts)


def _instances() -> tuple[list[Any], list[Any], list[Any]]:
    """Return all modules, optimizers and data sets that the garbage collector knows."""
    found: dict[str, list[Any]] = {"module": [], "optimizer": [], "data": []}
    # By the id of a class: its role, or None. A class may not be hashable.
    known: dict[int, str | None] = {}
    objects = gc.get_objects()
    try:
        for x in objects:
            kind = type(x)
            key = id(kind)
            if key not in known:
                known[key] = next((roles[base] for base in roles if _derives(kind, base)), None)
            role = known[key]
            if role is not None:
                found[role].append(x)
    finally:
        objects.clear()
    return found["module"], found["optimizer"], found["data"]


def _derives(kind: type, base: type) -> bool:
    return any(each is base for each in kind.__mro__)


def _roots_of(modules: list[Any]) -> list[tuple[str, Any]]:
    """Return the modules that are part of no other one, with the names of their classes."""
    inner = {id(x) for module in modules for _, x in _members(module)}
    return [(type(module).__name__, module) for module in modules if id(module) not in inner]


def _members(module: Any) -> list[tuple[str, Any]]:
    try:
        return [(name, x) for name, x in members_of(module) if x is not None]
    except (AttributeError, TypeError, RuntimeError):  # a constructor that has not run, or another thread
        return []


def _footprint(x: Any) -> tuple[int, int]:
    kind = tensor_class_of(x)
    if kind is None:
        return footprint_of(x)
    try:
        return kind.footprint(x)
    except (AttributeError, RuntimeError, TypeError):  # disposed, or an opaque tensor
        return id(x), 0


def _gradient_of(x: Any) -> Any:
    kind = tensor_class_of(x)
    try:
        return None if kind is None else kind.gradient(x)
    except (AttributeError, RuntimeError):
        return None


def _namespace(x: Any) -> Any:
    try:
        return object.__getattribute__(x, "__dict__")
    except (AttributeError, TypeError):
        return None


def _attribute(x: Any, name: str) -> Any:
    namespace = _namespace(x)
    return namespace.get(name) if type(namespace) is dict else None


def _parts_of(x: Any) -> Iterable[Any]:
    """Return the items of a container and the attributes of an object of a class in Python."""
    kind = type(x)
    if issubclass(kind, dict):
        return list(dict.values(x))
    if issubclass(kind, (list, tuple)):
        base: Any = list if issubclass(kind, list) else tuple
        return list(base.__iter__(x))
    namespace = _namespace(x)
    is_plain = type(namespace) is dict and not issubclass(kind, type) and kind.__module__ != "builtins"
    return list(namespace.values()) if is_plain else ()


# --- Errors -----------------------------------------------------------------------------------------------

HEADING = "Memory at this error, by owner:"


def explain(error: BaseException) -> OwnerReport | str | None:
    """Return the owners of the memory at `error`, None if it is no lack of memory, or words for a failure."""
    if not is_out_of_memory(error):
        return None
    release()
    try:
        with searching_error(error):
            return owners()
    except MemoryError:
        return "there is too little memory left to find out what owns it"
    except RuntimeError as failure:  # another thread is changing the objects
        return f"what owns the memory was not found: {failure}"


def add_note(error: BaseException) -> None:
    """Add the largest owners of memory to `error` as a note, if it says that memory is short."""
    try:
        if any(type(each) is str and each.startswith(HEADING) for each in getattr(error, "__notes__", ())):
            return  # an inner block has
        found = explain(error)
        if found is None:
            return
        text = found if isinstance(found, str) else str(replace(found, rows=found.rows[:_MAX_NOTED]))
        error.add_note(f"{HEADING}\n{text}")
    except MemoryError:
        write_to_stderr("disposescope: there is too little memory left to find out what owns it")
