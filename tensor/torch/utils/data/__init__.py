"""``torch.utils.data``: `nn.data`, name by name."""

from nn import data as _ours
from nn.data import *  # noqa: F403 -- what its `__all__` lists
from tensor.torch.utils.data import dataloader, dataset, sampler

__all__ = ["dataloader", "dataset", "sampler"]
__all__ += _ours.__all__
