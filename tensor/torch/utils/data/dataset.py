"""``torch.utils.data.dataset``: the names of `nn.data`."""

from nn import data as _ours
from nn.data import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
