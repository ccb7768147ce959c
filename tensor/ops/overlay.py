"""Record a write to a tensor in the histories of other views of its memory."""

from __future__ import annotations

import numpy as np

from tensor.core.tensor import TensorCore
from tensor.memory.buffer import Buffer
from tensor.tape.hooks import continue_with
from tensor.tape.recording import record
from tensor.tape.rules import RULES
from tensor.tape.rules.overlay import Places


def overlay(whole: TensorCore, part: TensorCore) -> None:
    """Record in the history of `whole` that its elements in `part` were written."""
    # Read each attribute once, the buffer first, because another thread may dispose both tensors meanwhile.
    buffer: Buffer | None = whole._buffer
    array, written = whole._array, part._array
    if buffer is None or array is None or written is None or not np.may_share_memory(array, written):
        return
    start = buffer.root.__array_interface__["data"][0]
    places = {"whole_places": Places(array, start), "part_places": Places(written, start)}
    node = record(RULES["overlay"], (whole, part), array, places)
    if node is not None:
        continue_with(whole, node)
