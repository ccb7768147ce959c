"""``torch.nn.modules.activation``: the names of `nn`."""

from nn import *  # noqa: F403
