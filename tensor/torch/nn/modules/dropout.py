"""``torch.nn.modules.dropout``: the names of `nn`."""

from nn import *  # noqa: F403
