"""``torch.nn.modules.container``: the names of `nn`."""

from nn import *  # noqa: F403
