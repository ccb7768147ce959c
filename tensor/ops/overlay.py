"""The histories of a tensor, and of other views of its memory, after a write to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from tensor.core.storage import StorageReference
from tensor.core.tensor import TensorCore
from tensor.memory.buffer import Buffer
from tensor.tape.hooks import keep_retaining
from tensor.tape.nodes import Node
from tensor.tape.recording import record_overlay
from tensor.tape.rules import RULES
from tensor.tape.rules.overlay import Places

# Tensors with their next histories, by id. `set_histories` sets them all at once.
Histories: TypeAlias = dict[int, tuple[StorageReference, Node]]


def add_history(histories: Histories, x: StorageReference, node: Node) -> None:
    """Add `node` as the next history of `x`."""
    keep_retaining(x, node)
    histories[id(x)] = (x, node)


def add_overlays(histories: Histories, part: TensorCore, others: Iterable[StorageReference]) -> None:
    """Add the next histories of `others`, tensors on the storage of `part`, whose next history is known."""
    for whole in others:
        node = _overlay(histories, whole, part)
        if node is not None:
            add_history(histories, whole, node)


def _overlay(histories: Histories, whole: StorageReference, part: TensorCore) -> Node | None:
    """Return the history of `whole` after the write to `part`, or None if they have no common element."""
    # Read each attribute once, the buffer first, because another thread may dispose both tensors meanwhile.
    buffer: Buffer | None = whole._buffer
    array, written = whole._array, part._array
    if buffer is None or array is None or written is None or not np.may_share_memory(array, written):
        return None
    before = histories[id(whole)][1] if id(whole) in histories else whole._node
    start = buffer.root.__array_interface__["data"][0]
    places = {"whole_places": Places(array, start), "part_places": Places(written, start)}
    return record_overlay(RULES["overlay"], before, histories[id(part)][1], array, places)
