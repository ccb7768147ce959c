"""``torch.nn.parameter``."""

from nn import Parameter

__all__ = ["Parameter"]
