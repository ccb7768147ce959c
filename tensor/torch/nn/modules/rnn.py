"""``torch.nn.modules.rnn``: the names of `nn`."""

from nn import *  # noqa: F403
