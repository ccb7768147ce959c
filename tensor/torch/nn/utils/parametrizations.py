"""``torch.nn.utils.parametrizations``."""

from nn.utils import parametrizations as _ours
from nn.utils.parametrizations import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
