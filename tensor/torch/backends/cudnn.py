"""``torch.backends.cudnn``: not built. Programs set its switches at their start, and nothing reads them."""

from tensor.torch.accelerator import is_available

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available"]

enabled: bool = False
allow_tf32: bool = False
benchmark: bool = False
deterministic: bool = False
