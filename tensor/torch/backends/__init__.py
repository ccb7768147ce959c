"""``torch.backends``: not available. Their settings can be assigned and have no effect."""

from tensor.torch.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
