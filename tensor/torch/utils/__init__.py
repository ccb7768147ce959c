"""``torch.utils``: data sets and activation checkpointing."""

from tensor.torch.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
