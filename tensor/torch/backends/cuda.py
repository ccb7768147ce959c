"""``torch.backends.cuda``: not built."""

from tensor.torch.accelerator import is_available as is_built

__all__ = ["is_built"]
