"""``torch.utils.checkpoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tensor import autograd

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

__all__ = ["checkpoint"]


def checkpoint(function: Callable[..., R], *args: object, use_reentrant: bool = False) -> R:
    """Return ``function(*args)``. Backward runs it again instead of saving intermediate tensors."""
    del use_reentrant
    return autograd.checkpoint(function, *args)
