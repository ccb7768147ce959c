"""What ``memory.splitting`` needs of tensors, and refusals of ops that need a whole batch."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Any

from scopes._shared.splitting import CannotSplitError
from tensor.core.tensor import TensorCore
from tensor.creation.generators import default_generator
from tensor.ops.joining import cat
from tensor.tape.modes import GradMode, is_recording
from tensor.tape.recording import Leaf, Node

__all__ = [
    "OnPieces",
    "add_gradients",
    "cat",
    "default_generator",
    "has_post_accumulate_hooks",
    "is_computed",
    "is_recording",
    "is_tensor",
    "leaves_of",
    "require_whole_batch",
]

# Whether a function runs on a piece of its batch.
_is_on_piece: ContextVar[bool] = ContextVar("is_on_piece", default=False)


class OnPieces:
    """In the block, ops run on a piece of a batch, and those that need the whole batch raise an error."""

    __slots__ = ("_token",)

    def __init__(self) -> None:
        self._token: Token[bool] | None = None

    def __enter__(self) -> None:
        self._token = _is_on_piece.set(True)

    def __exit__(self, *error: object) -> None:
        if self._token is not None:
            _is_on_piece.reset(self._token)


def require_whole_batch(reason: str) -> None:
    """Raise an error if this runs on a piece of a batch. `reason` says what needs all of it."""
    if _is_on_piece.get():
        raise CannotSplitError(reason)


def is_tensor(x: object) -> bool:
    """Return whether `x` is a tensor."""
    return isinstance(x, TensorCore)


def is_computed(x: TensorCore) -> bool:
    """Return whether `x` was computed, and its graph is recorded."""
    return x._node is not None and not isinstance(x._node, Leaf)


def leaves_of(loss: TensorCore) -> list[Any]:
    """Return the leaves in which backward of `loss` accumulates gradients."""
    found = []
    stack: list[Node | None] = [loss._node]
    seen: set[Node] = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, Leaf):
            leaf = node.tensor()
            if leaf is not None:
                found.append(leaf)
        stack.extend(node.next)
    return found


def has_post_accumulate_hooks(leaf: TensorCore) -> bool:
    """Return whether backward calls hooks after it has accumulated the gradient of `leaf`."""
    hooks = None if leaf._node is None else leaf._node.hooks
    return hooks is not None and bool(hooks.after)


def add_gradients(before: Any, new: Any) -> Any:
    """Return the sum of two gradients, in the memory of `before` if it has no history."""
    if before.requires_grad or new.requires_grad:
        return before + new
    with GradMode(False):
        return before.add_(new)
