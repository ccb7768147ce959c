"""``torch.nn.modules.pooling``: the names of `nn`."""

from nn import *  # noqa: F403
