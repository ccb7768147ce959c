"""``torch.autograd``."""

from tensor import autograd as _autograd
from tensor.autograd import *  # noqa: F403 -- what its `__all__` lists

__all__ = []  # filled below: type checkers follow `+=` alone
__all__ += _autograd.__all__
