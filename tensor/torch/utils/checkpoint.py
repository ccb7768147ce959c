"""``torch.utils.checkpoint``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tensor import autograd

if TYPE_CHECKING:
    from collections.abc import Callable

R = TypeVar("R")

__all__ = ["checkpoint"]


def checkpoint(function: Callable[..., R], *args: object, use_reentrant: bool = False) -> R:
    """Return ``function(*args)``, which is run again in backward instead of keeping what it saved."""
    del use_reentrant
    return autograd.checkpoint(function, *args)
