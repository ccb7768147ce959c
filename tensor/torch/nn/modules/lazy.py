"""``torch.nn.modules.lazy``."""

from nn import LazyModuleMixin

__all__ = ["LazyModuleMixin"]
