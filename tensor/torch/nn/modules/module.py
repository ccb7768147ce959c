"""``torch.nn.modules.module``."""

from nn import Module

__all__ = ["Module"]
