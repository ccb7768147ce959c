"""``torch.backends``: none of them is here; their switches can be set and change nothing."""

from tensor.torch.backends import cuda, cudnn, mps

__all__ = ["cuda", "cudnn", "mps"]
