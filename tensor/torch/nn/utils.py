"""``torch.nn.utils``: `nn.utils`, name by name."""

from nn import utils as _ours
from nn.utils import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
