"""``torch.nn.modules.flatten``: the names of `nn`."""

from nn import *  # noqa: F403
