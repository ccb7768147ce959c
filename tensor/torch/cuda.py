"""``torch.cuda``: not available."""

from __future__ import annotations

from tensor import InvalidArgumentError, OutOfMemoryError
from tensor.torch.accelerator import device_count, is_available, synchronize

__all__ = [
    "OutOfMemoryError",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
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


def memory_allocated(device: object = None) -> int:
    """Return 0, as PyTorch does without a device. For the CPU: ``tensor.memory.statistics().bytes_live``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
    (0, 0)
    """
    del device
    return 0


max_memory_allocated = memory_allocated
memory_reserved = memory_allocated
max_memory_reserved = memory_allocated
memory_cached = memory_allocated
max_memory_cached = memory_allocated


def memory_stats(device: object = None) -> dict[str, int]:
    """Return no figures, as PyTorch does without a device: those of the CPU are in `tensor.memory`."""
    del device
    return {}


def reset_peak_memory_stats(device: object = None) -> None:
    """Do nothing: without a device, all figures are 0."""
    del device


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats
reset_accumulated_memory_stats = reset_peak_memory_stats
