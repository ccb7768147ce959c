"""``torch.nn.modules.upsampling``: the names of `nn`."""

from nn import *  # noqa: F403
