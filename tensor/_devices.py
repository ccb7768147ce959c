"""Devices. Tensors are always on the CPU. Other device names exist, but can't be used."""

from __future__ import annotations

from scopes._shared.naming import set_module
from tensor._errors import InvalidArgumentError, shown


@set_module("tensor")
class Device(str):
    """The name of a device, such as ``"cpu"`` or ``"cuda:0"``: a string with a type and an index.

    Names of devices that do not exist are valid. But tensors are always on the CPU: using another device is
    an error.

    Examples
    --------
    >>> import tensor
    >>> device = tensor.zeros((1,)).device
    >>> device, device.type, device == "cpu", tensor.Device("cuda", 1).index
    (device(type='cpu'), 'cpu', True, 1)
    """

    __slots__ = ()

    def __new__(cls, type: str, index: int | None = None) -> Device:
        if isinstance(type, Device) and index is None:
            return type
        if not isinstance(type, str):
            raise TypeError(f"a device must be a string such as 'cpu', not {shown(type)}")
        kind, colon, number = type.partition(":")
        if not kind.isidentifier() or (colon and (index is not None or not number.isdecimal())):
            raise InvalidArgumentError(
                f"{shown(type)} is not the name of a device: write 'cpu', or a type with an index, 'cuda:0'"
            )
        return str.__new__(cls, type if index is None else f"{type}:{index}")

    @property
    def type(self) -> str:
        """The type of device, such as ``"cpu"``."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]  # PyTorch's name
        """The index among devices of one type; None if the name has none."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        number = self.index
        return f"device(type={self.type!r}{'' if number is None else f', index={number}'})"

    def __getnewargs__(self) -> tuple[str]:
        return (str(self),)


CPU = Device("cpu")


def require_cpu(device: object) -> None:
    """Raise an error unless `device` is None or the CPU."""
    if device is None or device in ("cpu", "cpu:0"):
        return
    if not isinstance(device, str):
        raise TypeError(f"a device must be a string such as 'cpu', not {shown(device)}")
    raise InvalidArgumentError(
        f"device {shown(str(device))} does not exist: all tensors are on the CPU. Omit .cuda() and "
        "device=, or write 'cpu'"
    )
