"""``torch.backends.cudnn``: not available. Programs may assign its settings, which have no effect."""

from tensor.torch.accelerator import is_available

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available"]

enabled: bool = False
allow_tf32: bool = False
benchmark: bool = False
deterministic: bool = False
