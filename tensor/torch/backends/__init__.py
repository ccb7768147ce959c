"""``torch.backends``: no backend is available. Programs may assign settings, which have no effect."""

from tensor.torch.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
