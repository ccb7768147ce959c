"""``torch.nn.init``: `nn.init`, name by name."""

from nn import init as _ours
from nn.init import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
