"""``torch.optim.lr_scheduler``: `nn.optim.lr_scheduler`, name by name."""

from nn.optim import lr_scheduler as _ours
from nn.optim.lr_scheduler import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
