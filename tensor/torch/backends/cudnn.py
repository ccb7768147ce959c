"""``torch.backends.cudnn``: not built. Programs set its switches at their start, and nothing reads them."""

from tensor.torch.accelerator import is_available

__all__ = ["benchmark", "deterministic", "enabled", "is_available"]

enabled: bool = False
benchmark: bool = False
deterministic: bool = False
