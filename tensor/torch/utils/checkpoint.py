"""``torch.utils.checkpoint``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from tensor import autograd

R = TypeVar("R")

__all__ = ["checkpoint", "noop_context_fn"]


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Return two contexts that do nothing: the default of ``checkpoint``."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., R],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[
        [], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]
    ] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> R:
    """Return ``function(*args, **kwargs)``. Backward runs it again instead of saving intermediate tensors.

    There is one kind of checkpoint, which always has the same random numbers in both runs, and checks that
    both record the same ops. So the parameters that are not described here have no effect.

    Parameters
    ----------
    use_reentrant
        Only ``False`` allows `context_fn`, as in PyTorch.
    context_fn
        A function that returns two context managers: `function` runs in the first one, and again in backward
        in the second one, each time. It is called once for each checkpoint.

    Raises
    ------
    ValueError
        If `context_fn` is passed without ``use_reentrant=False``.
    TypeError
        If `context_fn` does not return two context managers.

    Examples
    --------
    >>> from contextlib import nullcontext
    >>> import tensor.torch as torch
    >>> from tensor.torch.utils.checkpoint import checkpoint
    >>> x = torch.zeros(1, requires_grad=True)
    >>> def contexts():
    ...     return nullcontext(), torch.autograd.detect_anomaly()
    >>> y = checkpoint(torch.sqrt, x, use_reentrant=False, context_fn=contexts)
    >>> y.item()
    0.0
    """
    del determinism_check, debug, early_stop, preserve_rng_state
    if context_fn is noop_context_fn:
        return autograd.checkpoint(function, *args, **kwargs)
    if use_reentrant is not False:
        raise ValueError("checkpoint: context_fn is only supported with use_reentrant=False: pass that too")
    return autograd.checkpoint(function, *args, context_fn=context_fn, **kwargs)
