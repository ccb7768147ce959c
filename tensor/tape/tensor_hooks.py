"""Methods of tensors that register hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import ref

from tensor.core.tensor import StorageReference
from tensor.tape.hooks import NodeHooks
from tensor.tape.recording import Node

if TYPE_CHECKING:
    pass


def keep_retaining(x: StorageReference, node: Node) -> None:
    """Let `node`, the next history of `x`, retain the gradient of `x` if its present history does."""
    hooks = None if x._node is None else x._node.hooks
    if hooks is not None and hooks.keeper is not None and hooks.keeper() is x:
        node.hooks = NodeHooks()
        node.hooks.keeper = ref(x)
