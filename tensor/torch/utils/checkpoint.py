"""``torch.utils.checkpoint``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tensor import autograd

R = TypeVar("R")

__all__ = ["checkpoint"]


def checkpoint(function: Callable[..., R], *args: object, use_reentrant: bool = False) -> R:
    """Return ``function(*args)``. Backward runs it again instead of saving intermediate tensors."""
    del use_reentrant
    return autograd.checkpoint(function, *args)
