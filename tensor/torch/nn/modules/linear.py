"""``torch.nn.modules.linear``."""

from nn import Bilinear, Identity, Linear

__all__ = ["Bilinear", "Identity", "Linear"]
