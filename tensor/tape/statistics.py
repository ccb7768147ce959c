"""Statistics of graphs: their nodes, and the buffers that only the nodes hold."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from tensor.core.tensor import TensorCore
from tensor.memory.buffer import Buffer, Share
from tensor.tape.recording import Leaf, Node

if TYPE_CHECKING:
    from tensor._tensor import Tensor


@set_module("tensor.autograd")
class OpStatistics(NamedTuple):
    """Statistics of the nodes of one op. A buffer that several ops save counts for each of them."""

    #: The name, as in ``MultiplyBackward``.
    name: str
    #: The number of its nodes.
    node_count: int
    #: The bytes of all buffers that its nodes save, each counted once.
    bytes_saved: int
    #: The bytes of those buffers that only the graph holds.
    bytes_held_alone: int


@set_module("tensor.autograd")
class GraphStatistics(NamedTuple):
    """Statistics of a graph at one moment. They keep nothing alive.

    ``str()`` gives a table with one line for each op.
    """

    #: The number of recorded ops, without leaves.
    node_count: int
    #: The bytes of all buffers that the nodes save for backward, including parameters, each counted once.
    bytes_saved: int
    #: The bytes of those buffers that only these nodes hold, which backward frees.
    bytes_held_alone: int
    #: The same for each op, in decreasing order of bytes.
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
    """Return the number of recorded ops in the graph of `t`, and the bytes that it keeps for backward.

    Without `t`, count all graphs of the process, recorded by any thread. This excludes nodes that
    ``gc.freeze()`` has frozen, because the garbage collector does not list them. Other threads may continue
    to record.

    A node whose values backward has freed counts as 0 bytes. For a tensor without history, all counts are 0.
    Memory is counted in whole buffers. Each buffer counts once, even if several nodes or views save it.

    Parameters
    ----------
    t : Tensor, optional
        The tensor whose graph is counted: all nodes that ``t.backward()`` would reach.

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
        return statistics_of([x for x in gc.get_objects() if isinstance(x, Node) and not isinstance(x, Leaf)])
    if not isinstance(t, TensorCore):
        raise TypeError(
            f"graph_statistics takes a tensor, not {type(t).__name__}: pass the tensor whose graph is to be "
            "counted, or nothing for all graphs"
        )
    t._raise_if_disposed()
    return statistics_of(nodes_from(t._node))


def nodes_from(root: Node | None) -> list[Node]:
    """Return all nodes that can be reached from `root`, each once, without leaves."""
    if root is None or isinstance(root, Leaf):
        return []
    seen: set[Node] = {root}
    nodes = [root]
    # The loop appends to the list that it reads.
    for node in nodes:
        for after in node.next:
            if after is not None and after not in seen and after.__class__ is not Leaf:
                seen.add(after)
                nodes.append(after)
    return nodes


def statistics_of(nodes: Iterable[Node]) -> GraphStatistics:
    """Return the statistics of `nodes`, which has no duplicates."""
    counts: dict[str, int] = {}
    saved_by: dict[str, set[Buffer]] = {}
    shares: set[Share] = set()
    for node in nodes:
        if not node.is_op or node.rule is None:  # None while another thread creates the node
            continue
        name, kept = node.name(), node.shares()
        counts[name] = counts.get(name, 0) + 1
        saved_by.setdefault(name, set()).update([share.buffer for share in kept])
        shares.update(kept)
    # The buffers of which all sharers belong to these nodes.
    holders = Counter([share.buffer for share in shares])
    alone = {buffer for buffer, count in holders.items() if buffer.sharers == count}
    rows = []
    for name, count in counts.items():
        saved = saved_by[name]
        rows.append(OpStatistics(name, count, _nbytes(saved), _nbytes(saved & alone)))
    rows.sort(key=lambda row: (-row.bytes_saved, -row.node_count, row.name))
    return GraphStatistics(sum(counts.values()), _nbytes(holders), _nbytes(alone), tuple(rows))


def _nbytes(buffers: Iterable[Buffer]) -> int:
    return sum([buffer.nbytes for buffer in buffers])
