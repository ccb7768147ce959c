"""``torch.nn.modules.flatten``."""

from nn import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
