"""``torch.nn.modules.pixelshuffle``: the names of `nn`."""

from nn import *  # noqa: F403
