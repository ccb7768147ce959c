"""``torch.nn``: the package `nn`, name by name."""

import nn as _nn
from nn import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.nn import parallel, parameter
from tensor.torch.nn.parallel import DataParallel

__all__ = ["DataParallel", "parallel", "parameter"]
__all__ += _nn.__all__
