"""``torch.nn.modules.linear``."""

from nn import Bilinear, Identity, LazyLinear, Linear, NonDynamicallyQuantizableLinear

__all__ = ["Bilinear", "Identity", "LazyLinear", "Linear", "NonDynamicallyQuantizableLinear"]
