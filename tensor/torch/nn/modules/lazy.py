"""``torch.nn.modules.lazy``: the names of `nn`."""

from nn import *  # noqa: F403
