"""``torch.nn.modules.pixelshuffle``."""

from nn import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
