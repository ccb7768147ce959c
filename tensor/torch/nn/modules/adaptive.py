"""``torch.nn.modules.adaptive``: the names of `nn`."""

from nn import *  # noqa: F403
