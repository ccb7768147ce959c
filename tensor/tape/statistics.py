"""What the graph keeps: its nodes, the buffers that they save, and which of those nobody else holds."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes.lowlevel import format_bytes
from tensor.core.tensor_core import TensorCore
from tensor.tape.nodes import Deferred, Leaf, Node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor.core.tensor import Tensor


@dataclass(frozen=True, slots=True)
class OpStatistics:
    """What the nodes of one op keep. A buffer that several ops save counts for each of them."""

    #: As in ``MultiplyBackward``.
    name: str
    #: How often it is recorded.
    node_count: int
    #: Of all buffers that its nodes save, each once.
    bytes_saved: int
    #: Those of them that nothing but the graph holds.
    bytes_held_alone: int


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """The figures of a graph at one moment. They keep nothing alive.

    Printed, they are a table with one line for each op.
    """

    #: How many ops are recorded; leaves are none.
    node_count: int
    #: Of all buffers that the nodes save for backward, each once, whoever else holds it: parameters too.
    bytes_saved: int
    #: Those of them that nothing but these nodes holds: what comes back when backward frees them.
    bytes_held_alone: int
    #: The same for each op, the most bytes first.
    ops: tuple[OpStatistics, ...]

    def __str__(self) -> str:
        whole = OpStatistics("all", self.node_count, self.bytes_saved, self.bytes_held_alone)
        lines = [("op", "nodes", "saved", "held alone")]
        for row in (*self.ops, whole):
            saved, alone = format_bytes(row.bytes_saved), format_bytes(row.bytes_held_alone)
            lines.append((row.name, str(row.node_count), saved, alone))
        first, *others = (max(map(len, column)) for column in zip(*lines, strict=True))
        return "\n".join(
            "  ".join((name.ljust(first), *map(str.rjust, figures, others))) for name, *figures in lines
        )


def graph_statistics(t: Tensor | None = None) -> GraphStatistics:
    """Return how many ops the graph of `t` has recorded, and how many bytes it keeps for backward.

    Without `t`: of all graphs in the process, on whichever thread they were recorded. What
    ``gc.freeze()`` has put away is not found then, for it is the garbage collector that lists the nodes;
    with `t` it is. Either way other threads may go on recording.

    A node whose values backward has freed counts as a node of 0 bytes; a tensor without history has
    zeros. Memory is counted in whole buffers, each once however many nodes or views save it, in bytes.

    Parameters
    ----------
    t : Tensor, optional
        Where to start: counted is all that ``t.backward()`` would reach.

    Raises
    ------
    TensorDisposedError
        If `t` is empty.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.ones((1000,), requires_grad=True)
    >>> y = (x * 2).exp().sum()
    >>> print(autograd.graph_statistics(y))
    op                nodes      saved  held alone
    ExpBackward           1  3.906 KiB   3.906 KiB
    MultiplyBackward      1    0 bytes     0 bytes
    SumBackward           1    0 bytes     0 bytes
    all                   3  3.906 KiB   3.906 KiB
    >>> y.backward()
    >>> autograd.graph_statistics(y).bytes_saved
    0
    """
    if t is None:
        return statistics_of(_all_nodes())
    if not isinstance(t, TensorCore):
        raise TypeError(
            f"graph_statistics takes a tensor, not {type(t).__name__}: pass the tensor whose graph is to be "
            "counted, or nothing for all graphs"
        )
    t._raise_if_disposed()
    return statistics_of(nodes_from(t._node))


def nodes_from(root: Node | None) -> list[Node]:
    """Return the nodes of all ops that can be reached from `root`, each once."""
    if root is None or isinstance(root, Leaf):
        return []
    seen: set[Node] = {root}
    nodes = [root]
    # It grows while it is read.
    for node in nodes:
        for after in node.next:
            if after is not None and after not in seen and after.__class__ is not Leaf:
                seen.add(after)
                nodes.append(after)
    return nodes


def _all_nodes() -> list[Node]:
    kinds: list[type[Node]] = [Node]
    # It grows while it is read.
    for kind in kinds:
        kinds += [inner for inner in kind.__subclasses__() if inner is not Leaf]
    # Each object refers to its class.
    return [thing for thing in gc.get_referrers(*kinds) if type(thing) in kinds]


def statistics_of(nodes: Iterable[Node]) -> GraphStatistics:
    """Return the figures of `nodes`, each of which is there once."""
    held = _Held()
    counts: dict[str, int] = {}
    saved_by: dict[str, list[int]] = {}
    for node in nodes:
        if not node.is_op:
            continue
        try:
            name = node.name()
            key = held.note(node.saved)
        except AttributeError:
            continue  # another thread is just making it
        counts[name] = counts.get(name, 0) + 1
        saved_by.setdefault(name, []).append(key)
    shared = held.elsewhere()
    rows = []
    everywhere: set[int] = set()
    for name, count in counts.items():
        buffers = held.buffers_under(saved_by[name])
        everywhere |= buffers
        rows.append(OpStatistics(name, count, held.nbytes(buffers), held.nbytes(buffers - shared)))
    rows.sort(key=lambda row: (-row.bytes_saved, -row.node_count, row.name))
    saved, alone = held.nbytes(everywhere), held.nbytes(everywhere - shared)
    return GraphStatistics(sum(counts.values()), saved, alone, tuple(rows))


class _Held:
    """What is saved, down to the owners of memory, by id; and how many references that explains."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        # In one list and nowhere else here, lest they seem to be held by more than they are.
        self.things: list[Any] = []
        # For each of them: how many references come from nodes and from other things, and what it leads to.
        self.references: list[int] = []
        self.inner: list[list[int]] = []

    def note(self, thing: Any) -> int:
        """Count one reference to `thing`, and return its place."""
        place = self.places.setdefault(id(thing), len(self.things))
        if place == len(self.things):
            self.things.append(thing)
            self.references.append(0)
            self.inner.append([])
            # Views have the owner of the memory for their base; only few things lie deep in others.
            self.inner[place] = [self.note(x) for x in _inside(thing) if _may_hold(x)]
        self.references[place] += 1
        return place

    def elsewhere(self) -> set[int]:
        """Return the places of all that something else holds too, itself or what leads to it."""
        explained = zip(map(getrefcount, self.things), self.references, strict=True)
        found = [place for place, (count, known) in enumerate(explained) if count > known + _LISTED]
        return self._under(found)

    def buffers_under(self, places: Iterable[int]) -> set[int]:
        """Return the places of the owners of memory that one gets to from `places`."""
        return {place for place in self._under(places) if self._is_owner(place)}

    def nbytes(self, buffers: Iterable[int]) -> int:
        return sum([self.things[place].nbytes for place in buffers])

    def _is_owner(self, place: int) -> bool:
        return isinstance(self.things[place], np.ndarray) and not self.inner[place]

    def _under(self, places: Iterable[int]) -> set[int]:
        found = set(places)
        stack = list(found)
        while stack:
            for inner in self.inner[stack.pop()]:
                if inner not in found:
                    found.add(inner)
                    stack.append(inner)
        return found


def _may_hold(x: object) -> bool:
    return isinstance(x, (np.ndarray, tuple, list, Deferred))


def _inside(thing: Any) -> Iterable[Any]:
    if isinstance(thing, np.ndarray):
        return () if thing.base is None else (thing.base,)
    if isinstance(thing, (tuple, list)):
        return thing
    # What saved values are computed from anew.
    return thing.arrays() if isinstance(thing, Deferred) else ()


# What is counted for something that nothing but a list holds.
_LISTED = next(map(getrefcount, [object()]))
