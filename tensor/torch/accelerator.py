"""``torch.accelerator``: not available."""

from __future__ import annotations

from tensor import Device, InvalidArgumentError

__all__ = ["current_accelerator", "device_count", "is_available", "set_device_index", "synchronize"]


def is_available() -> bool:
    """Return False: all tensors are in CPU memory.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.device("cuda") if torch.accelerator.is_available() else torch.device("cpu")
    device(type='cpu')
    """
    return False


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return None: there is no accelerator."""
    del check_available
    return None


def device_count() -> int:
    """Return 0."""
    return 0


def set_device_index(device: object) -> None:
    """Raise an error: there is no accelerator."""
    raise InvalidArgumentError(f"there is no accelerator {device!r}: use 'cpu'")


def synchronize(device: object = None) -> None:
    """Do nothing: every call is complete when it returns."""
    del device
