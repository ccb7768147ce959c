"""``torch.nn``: the package `nn`, name by name."""

import nn as _nn
from nn import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.nn import parameter

__all__ = ["parameter"]
__all__ += _nn.__all__
