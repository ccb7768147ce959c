"""``torch.nn.modules.linear``: the names of `nn`."""

from nn import *  # noqa: F403
