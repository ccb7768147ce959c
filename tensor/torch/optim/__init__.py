"""``torch.optim``: `nn.optim`, name by name."""

from typing import Any

from nn import optim as _ours
from nn.optim import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.optim import optimizer

__all__ = ["SparseAdam", "optimizer"]
__all__ += _ours.__all__


class SparseAdam:
    """Not supported: constructing it raises an error, because all gradients are dense.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.optim.SparseAdam([])
    Traceback (most recent call last):
    ...
    NotImplementedError: SparseAdam needs sparse gradients, but all gradients are dense here. Write
    torch.optim.Adam(...), and omit sparse=True
    """

    def __init__(self, params: Any, **options: Any) -> None:
        del params, options
        raise NotImplementedError(
            "SparseAdam needs sparse gradients, but all gradients are dense here. Write "
            "torch.optim.Adam(...), and omit sparse=True"
        )
