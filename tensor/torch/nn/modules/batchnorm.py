"""``torch.nn.modules.batchnorm``: the names of `nn`."""

from nn import *  # noqa: F403
