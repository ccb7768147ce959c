"""``torch.nn.modules.conv``: the names of `nn`."""

from nn import *  # noqa: F403
