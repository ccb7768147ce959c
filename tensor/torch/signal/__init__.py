"""``torch.signal``: window functions."""

from tensor.torch.signal import windows

__all__ = ["windows"]
