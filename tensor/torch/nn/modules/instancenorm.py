"""``torch.nn.modules.instancenorm``: the names of `nn`."""

from nn import *  # noqa: F403
