"""``torch.nn.modules.sparse``: the names of `nn`."""

from nn import *  # noqa: F403
