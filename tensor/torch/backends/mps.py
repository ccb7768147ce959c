"""``torch.backends.mps``: not available."""

from tensor.torch.accelerator import is_available
from tensor.torch.accelerator import is_available as is_built

__all__ = ["is_available", "is_built"]
