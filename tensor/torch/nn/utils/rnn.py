"""``torch.nn.utils.rnn``: `nn.utils.rnn`, name by name."""

from nn.utils import rnn as _ours
from nn.utils.rnn import *  # noqa: F403 -- what its `__all__` lists

__all__ = []
__all__ += _ours.__all__
