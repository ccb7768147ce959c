"""``torch.nn.modules.normalization``: the names of `nn`."""

from nn import *  # noqa: F403
