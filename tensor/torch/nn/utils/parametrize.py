"""``torch.nn.utils.parametrize``."""

from nn.utils import parametrize as _ours
from nn.utils.parametrize import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
