"""``torch.optim.swa_utils``: `nn.optim.swa_utils`, name by name."""

from nn.optim import swa_utils as _ours
from nn.optim.swa_utils import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
