"""``torch.cuda``: not available."""

from __future__ import annotations

from tensor import InvalidArgumentError
from tensor.torch.accelerator import device_count, is_available, synchronize

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "set_device",
    "synchronize",
]

_NO_DEVICE = "there is no CUDA device: all tensors are in CPU memory. Check torch.cuda.is_available() first"


def is_initialized() -> bool:
    """Return False."""
    return False


def current_device() -> int:
    """Raise an error: there is no CUDA device."""
    raise InvalidArgumentError(_NO_DEVICE)


def get_device_name(device: object = None) -> str:
    """Raise an error: there is no CUDA device."""
    del device
    raise InvalidArgumentError(_NO_DEVICE)


def set_device(device: object) -> None:
    """Raise an error: there is no CUDA device."""
    del device
    raise InvalidArgumentError(_NO_DEVICE)


def manual_seed(seed: int) -> None:
    """Do nothing, as PyTorch does without a device: ``torch.manual_seed`` is for the CPU."""
    del seed


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Do nothing, as PyTorch does without a device. ``tensor.memory.trim()`` empties the CPU's pool."""
