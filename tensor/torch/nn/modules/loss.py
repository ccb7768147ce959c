"""``torch.nn.modules.loss``: the names of `nn`."""

from nn import *  # noqa: F403
