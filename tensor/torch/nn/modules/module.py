"""``torch.nn.modules.module``: the names of `nn`."""

from nn import *  # noqa: F403
