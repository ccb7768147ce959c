"""``torch.nn.parameter``."""

from nn import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = ["Parameter", "UninitializedBuffer", "UninitializedParameter"]
