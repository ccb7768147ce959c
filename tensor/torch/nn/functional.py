"""``torch.nn.functional``: `nn.functional`, name by name."""

from nn import functional as _ours
from nn.functional import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
