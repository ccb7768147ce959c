"""``torch.nn.modules.transformer``: the names of `nn`."""

from nn import *  # noqa: F403
