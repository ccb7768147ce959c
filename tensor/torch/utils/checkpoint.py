"""``torch.utils.checkpoint``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tensor import autograd

R = TypeVar("R")

__all__ = ["checkpoint"]


def checkpoint(
    function: Callable[..., R],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> R:
    """Return ``function(*args, **kwargs)``. Backward runs it again instead of saving intermediate tensors.

    There is one kind of checkpoint, which always has the same random numbers in both runs.
    """
    del use_reentrant, preserve_rng_state
    return autograd.checkpoint(function, *args, **kwargs)
