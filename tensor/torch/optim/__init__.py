"""``torch.optim``: `nn.optim`, name by name."""

from nn import optim as _ours
from nn.optim import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
