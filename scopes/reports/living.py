"""Report of all living tensors by type and shape, with their holders, with or without tracking."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

from scopes._shared.sizes import format_bytes
from scopes.core.scope import footprint_of, keeps_of
from scopes.reports.leak_report import OP_BYTES
from scopes.reports.leaks import Seen, without_collection
from scopes.reports.tables import Cell, Report, Table, figure, size, words
from scopes.tracking.holders import MAX_REFERENCES, Effort, Holder, holders_of
from scopes.tracking.referrers import instances_of
from scopes.tracking.unnamed import explain_unnamed

# The number of first rows whose holders are searched.
_MAX_HELD = 8


class LivingKind(NamedTuple):
    """What the tensors of one row have in common."""

    #: The type, with its library: "torch.Parameter", or "Tensor" for one of this library.
    name: str
    shape: tuple[int, ...]
    dtype: str
    device: str

    def __str__(self) -> str:
        return f"{self.shape} {self.dtype}{f' on {self.device}' if self.device else ''}"


@dataclass(frozen=True, slots=True)
class LivingRow:
    """The living tensors of one type, shape, dtype and device."""

    kind: LivingKind
    #: The number alive.
    count: int
    #: The bytes of their memory, and of the memory that only their graphs keep. Shared memory counts once.
    nbytes: int
    #: The number of recorded operations that their graphs keep, each counted once.
    op_count: int
    #: The path of references to most of them, if it was searched and found; see `LeakRow.holder`.
    holder: Holder | None = None
    #: The change of the number and of the bytes since an earlier report; None without one.
    change: tuple[int, int] | None = None

    @property
    def weight(self) -> int:
        """The weight that orders rows: their bytes, plus 256 for each operation of their graphs."""
        return self.nbytes + OP_BYTES * self.op_count

    def _cells(self, *, with_change: bool) -> tuple[Cell, ...]:
        count, nbytes = self.change or (0, 0)
        sign = "-" if nbytes < 0 else "+"
        changed = f"{count:+,}, {sign}{format_bytes(abs(nbytes))}" if count or nbytes else ""
        change = (Cell(changed, nbytes),) if with_change else ()
        return (
            figure(self.count),
            size(self.nbytes),
            Cell(f"{self.op_count:,}" if self.op_count else "", self.op_count),
            *change,
            words(self.kind.name),
            words(str(self.kind)),
            words(_text_of(self.holder, self.count)),
        )


def _text_of(holder: Holder | None, count: int) -> str:
    if holder is None:
        return ""
    if not holder.text:
        searched = f"the search ended after {holder.followed_count:,} references"
        return f"no holder found: {searched}" if holder.followed_count else ""
    if holder.held_count == holder.searched_count:
        return holder.text
    share = f"{holder.held_count:,} of {holder.searched_count:,}"
    return f"{holder.text} ({share if holder.searched_count == count else f'{share} looked for'})"


@dataclass(frozen=True, slots=True)
class LivingReport(Report):
    """All living tensors by type, shape, dtype and device, by memory."""

    rows: tuple[LivingRow, ...]

    @property
    def count(self) -> int:
        """The number of living tensors."""
        return sum(row.count for row in self.rows)

    @property
    def nbytes(self) -> int:
        """The bytes that they keep."""
        return sum(row.nbytes for row in self.rows)

    def since(self, earlier: LivingReport) -> LivingReport:
        """Return the report with the changes since `earlier`, the rows that grew most first."""
        before = {row.kind: row for row in earlier.rows}
        rows = [
            replace(row, change=(row.count - of.count, row.nbytes - of.nbytes))
            for row in self.rows
            for of in [before.pop(row.kind, LivingRow(row.kind, 0, 0, 0))]
        ]
        rows += [LivingRow(kind, 0, 0, 0, None, (-of.count, -of.nbytes)) for kind, of in before.items()]
        rows.sort(key=lambda row: (-(row.change or (0, 0))[1], -row.weight))
        return LivingReport(tuple(rows))

    def _table(self) -> Table:
        with_change = any(row.change is not None for row in self.rows)
        headings = [("alive", True), ("bytes", True), ("graph ops", True)]
        headings += [("change", True)] if with_change else []
        headings += [("type", False), ("shape", False), ("held by", False)]
        if not self.rows:
            return Table("no tensor is alive", tuple(headings), ())
        title = f"{self.count:,} tensors alive, {format_bytes(self.nbytes)}"
        rows = [row._cells(with_change=with_change) for row in self.rows]
        return Table(title, tuple(headings), rows, "and {} more types and shapes")


class _Tensors(NamedTuple):
    """The living tensors of one library, and how to measure them."""

    objects: list[Any]
    kind: Callable[[Any], LivingKind]
    footprint: Callable[[Any], tuple[int, int]]
    keeps: Callable[[Any, Seen], Iterable[tuple[int, int | None]]]


def living() -> LivingReport:
    """Return the report of the living tensors of this library, of PyTorch and of JAX.

    It finds tensors that have an object in Python, except those that ``gc.freeze`` has taken from the
    collector, and all arrays of JAX. Memory without such an object counts if the graph of a tensor keeps it.
    """
    with without_collection():
        groups: dict[LivingKind, list[Any]] = {}
        rows: dict[LivingKind, LivingRow] = {}
        for library in (_own, _torch, _jax):
            tensors = library()
            if tensors is not None:
                _group(tensors, groups, rows)
                tensors.objects.clear()
        try:
            found = sorted(rows.values(), key=lambda row: -row.weight)
            wanted = {row.kind: groups[row.kind] for row in found[:_MAX_HELD]}
            groups.clear()
            holders = holders_of(wanted, Effort(MAX_REFERENCES), explain=explain_unnamed, explained=wanted)
            wanted.clear()
        finally:
            groups.clear()  # a traceback may keep this frame, and must not keep the tensors
    return LivingReport(tuple([replace(row, holder=holders.get(row.kind)) for row in found]))


def _group(tensors: _Tensors, groups: dict[LivingKind, list[Any]], rows: dict[LivingKind, LivingRow]) -> None:
    """Group `tensors` by kind, and add a row for each kind.

    Memory counts for a tensor on it first, then for a graph that keeps it.
    """
    seen = Seen()
    kinds: list[tuple[LivingKind, Any]] = []
    for x in tensors.objects:
        try:
            kind = tensors.kind(x)
            key, nbytes = tensors.footprint(x)
        except (RuntimeError, AttributeError, NotImplementedError, TypeError):
            continue  # a wrapper without memory, or another thread disposes it
        kinds.append((kind, x))
        groups.setdefault(kind, []).append(x)
        row = rows.setdefault(kind, LivingRow(kind, 0, 0, 0))
        rows[kind] = replace(row, count=row.count + 1, nbytes=row.nbytes + (nbytes if key not in seen else 0))
        seen.add(key)
    while kinds:
        kind, x = kinds.pop()
        try:
            kept = list(tensors.keeps(x, seen))
        except (RuntimeError, AttributeError, NotImplementedError, TypeError):
            continue
        nbytes = op_count = 0
        for key, n in kept:
            if n is None:
                op_count += 1
            elif key not in seen:
                seen.add(key)
                nbytes += n
        if nbytes or op_count:
            row = rows[kind]
            rows[kind] = replace(row, nbytes=row.nbytes + nbytes, op_count=row.op_count + op_count)


def _own() -> _Tensors | None:
    if "tensor.core.tensor" not in sys.modules:  # `tensor` alone may be a module of the program
        return None
    kind = sys.modules["tensor"].Tensor
    # The attributes of the base class: those of a subclass may be a user's properties.
    shape, dtype, is_invalid = kind.shape, kind.dtype, kind.is_invalid

    def kind_of(x: Any) -> LivingKind:
        return LivingKind(type(x).__name__, tuple(shape.__get__(x)), str(dtype.__get__(x)), "")

    return _Tensors(
        [x for x in instances_of(kind) if not is_invalid.__get__(x)], kind_of, footprint_of, keeps_of
    )


def _is_loaded(library: str) -> bool:
    """Return whether the program has imported `library`: all of it, and not a module of its own."""
    module = sys.modules.get(library)
    spec = getattr(module, "__spec__", None)
    return hasattr(module, "__version__") and not getattr(spec, "_initializing", False)


def _torch() -> _Tensors | None:
    if not _is_loaded("torch"):
        return None
    adapter = import_module("scopes.adapters.torch.adapter").ADAPTER
    torch = sys.modules["torch"]
    no_functions = torch._C.DisableTorchFunction
    base = torch._C.TensorBase

    def kind_of(x: Any) -> LivingKind:
        with no_functions():
            name = type(x).__name__
            dtype = str(base.dtype.__get__(x)).removeprefix("torch.")
            device = str(base.device.__get__(x))
            return LivingKind(
                f"torch.{name}", tuple(base.shape.__get__(x)), dtype, "" if device == "cpu" else device
            )

    found = [
        x
        for x in instances_of(torch.Tensor)
        if not getattr(type(x), "is_invalid", False) and adapter.may_own_new(x) is not None
    ]
    return _Tensors(found, kind_of, adapter.footprint, adapter.keeps)


def _jax() -> _Tensors | None:
    if not _is_loaded("jax"):
        return None
    jax = sys.modules["jax"]

    def kind_of(x: Any) -> LivingKind:
        return LivingKind("jax.Array", tuple(x.shape), str(x.dtype), ", ".join(sorted(map(str, x.devices()))))

    def footprint(x: Any) -> tuple[int, int]:
        return id(x), int(x.nbytes)

    arrays = [x for x in jax.live_arrays() if not x.is_deleted()]
    return _Tensors(arrays, kind_of, footprint, lambda x, _: [footprint(x)])
