"""``torch.nn.modules.linear``."""

from nn import Bilinear, Identity, Linear, NonDynamicallyQuantizableLinear

__all__ = ["Bilinear", "Identity", "Linear", "NonDynamicallyQuantizableLinear"]
