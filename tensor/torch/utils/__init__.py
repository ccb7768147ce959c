"""``torch.utils``: data sets and checkpoints of activations."""

from tensor.torch.utils import checkpoint, data

__all__ = ["checkpoint", "data"]
