"""The histories of a tensor, and of other views of its memory, after a write to it.

As in PyTorch, the history of a write to a view belongs to its *base*, the tensor that is no view itself. All
views of the base then read from it: their new histories are views of its new history. So the gradient of the
base has the parts that flow through its views, and views do not depend on each other.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tensor._dtypes import Array
from tensor.core.tensor import StorageReference, TensorCore
from tensor.memory.buffer import Buffer
from tensor.tape.recording import Node, record_places
from tensor.tape.rules import RULES
from tensor.tape.rules.overlay import Places
from tensor.tape.tensor_hooks import keep_retaining

# Tensors with their next histories, by id. `set_histories` sets them all at once.
Histories: TypeAlias = dict[int, tuple[StorageReference, Node]]

_OVERLAY = RULES["overlay"]
_READ = RULES["read_places"]


def add_history(histories: Histories, x: StorageReference, node: Node) -> None:
    """Add `node` as the next history of `x`."""
    keep_retaining(x, node)
    histories[id(x)] = (x, node)


def add_written(histories: Histories, x: TensorCore, node: Node, others: list[StorageReference]) -> None:
    """Add the next histories of `x`, to which the op of `node` wrote, and of `others`, its relatives."""
    if not others:
        add_history(histories, x, node)
        return
    base = _base_among(x, others)
    whole = None if base is None or base is x else _overlay(histories, base, x, node)
    if whole is None:
        # Without its base, `x` reads from what was written, so that the other views do not depend on it.
        source: StorageReference = x
        written = node
        add_history(histories, x, node if base is x else _reading(x, x, node) or node)
    else:
        source = base  # type: ignore[assignment]  # not None, see above
        written = whole
        add_history(histories, source, written)
        add_history(histories, x, _reading(x, source, written) or node)
    for other in others:
        if other is not source:
            after = _reading(other, source, written) or _overlay(histories, other, source, written)
            if after is not None:
                add_history(histories, other, after)


def add_op(histories: Histories, x: TensorCore, node: Node, others: list[StorageReference]) -> None:
    """Add the next histories of `x`, the first input of the op of `node`, which wrote to it, and of `others`.

    The op takes the old values of `x` from its base. So hooks of `x` and of the views that it was made from
    belong to the values before the write, and are not called for later ones, as in PyTorch.
    """
    base = _base_among(x, others) if others else x
    if base is not None and base is not x and base._node is not None and node.next[0] is not None:
        before = _reading(x, base, base._node)
        if before is not None:
            node.next = (before, *node.next[1:])
    add_written(histories, x, node, others)


def _base_among(x: TensorCore, others: list[StorageReference]) -> StorageReference | None:
    """Return the base of `x`: `x`, or one of `others`, its relatives. None if it is gone.

    Also return None if `others` have several tensors that are no views: results of an `autograd.Function`.
    """
    if not x._is_view:
        return x
    bases = [other for other in others if not other._is_view]
    return bases[0] if len(bases) == 1 else None


def _overlay(
    histories: Histories, whole: StorageReference, part: StorageReference, written: Node
) -> Node | None:
    """Return the history of `whole` after a write to `part`, or None if they have no common element.

    `written` is the history of `part` after the write.
    """
    # Read each attribute once, the buffer first, because another thread may dispose both tensors meanwhile.
    buffer: Buffer | None = whole._buffer
    array, target = whole._array, part._array
    if buffer is None or array is None or target is None or not np.may_share_memory(array, target):
        return None
    before = histories[id(whole)][1] if id(whole) in histories else whole._node
    return record_places(_OVERLAY, (before, written), array, _places(buffer, array, target))


def _reading(part: StorageReference, whole: StorageReference, written: Node) -> Node | None:
    """Return the history of `part`, a view of `whole`, after a write, or None if it has other elements too.

    `written` is the history of `whole` after the write.
    """
    buffer: Buffer | None = whole._buffer
    array, source = part._array, whole._array
    if buffer is None or array is None or source is None:
        return None
    if part is not whole and not _covers(source, array):
        return None
    return record_places(_READ, (written,), array, _places(buffer, source, array))


def _places(buffer: Buffer, whole: Array, part: Array) -> dict[str, Places]:
    start = buffer.root.__array_interface__["data"][0]
    return {"whole_places": Places(whole, start), "part_places": Places(part, start)}


def _covers(whole: Array, part: Array) -> bool:
    """Return whether `whole` has no gaps in memory, and `part` lies within it."""
    low, high = byte_bounds(whole)
    first, end = byte_bounds(part)
    return high - low == whole.nbytes and low <= first and end <= high
