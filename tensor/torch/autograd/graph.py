"""``torch.autograd.graph``: nodes of graphs, and hooks on the tensors that they save."""

from tensor.autograd.graph import *  # noqa: F403 -- what its `__all__` lists
from tensor.autograd.graph import __all__ as __all__
