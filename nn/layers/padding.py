"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nn import functional as F
from nn.layers.dimensions import Dimensional
from tensor import Tensor
from tensor.lowlevel import InvalidArgumentError, shown


class _Pad(Dimensional):
    _mode: ClassVar[str]
    _sections = """
        Parameters
        ----------
        padding
            The numbers of elements: one integer, or pairs of before and after for each dimension, from the
            last dimension to the first. Negative numbers remove elements.
    """
    _texts: ClassVar = {"value": "The value of the added elements."}
    _example = ("nn.{name}(1)(tensor.ones((1, 2, {sizes[3]}))).shape", "(1, 2, {sizes[5]})")

    def __init_subclass__(cls, mode: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if mode is not None:
            cls._mode = mode

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        count = 2 * self._dims
        many = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(many) != count or any(type(n) is not int for n in many):
            raise InvalidArgumentError(
                f"{type(self).__name__}: padding must be an integer, or {count} of them (before and after "
                f"each dimension, starting with the last), not {shown(padding)}"
            )
        self.padding = many

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class _ConstantPad(_Pad, mode="constant"):
    _example = ("nn.{name}(1, 0.5)(tensor.ones((1, 2, {sizes[3]}))).shape", "(1, 2, {sizes[5]})")

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, self._mode, self.value)

    def extra_repr(self) -> str:
        """Return the padding and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad, dims=1):
    """Pads the last dimension with a constant value."""


class ConstantPad2d(_ConstantPad, dims=2):
    """Pads the last two dimensions with a constant value."""


class ConstantPad3d(_ConstantPad, dims=3):
    """Pads the last three dimensions with a constant value."""


class ZeroPad1d(_Pad, dims=1, mode="constant"):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_Pad, dims=2, mode="constant"):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_Pad, dims=3, mode="constant"):
    """Pads the last three dimensions with zeros."""


class ReflectionPad1d(_Pad, dims=1, mode="reflect"):
    """Pads the last dimension with a reflection of the input, without repeating the edge."""


class ReflectionPad2d(_Pad, dims=2, mode="reflect"):
    """Pads the last two dimensions with a reflection of the input, without repeating the edge."""


class ReflectionPad3d(_Pad, dims=3, mode="reflect"):
    """Pads the last three dimensions with a reflection of the input, without repeating the edge."""


class ReplicationPad1d(_Pad, dims=1, mode="replicate"):
    """Pads the last dimension with copies of the edge elements."""


class ReplicationPad2d(_Pad, dims=2, mode="replicate"):
    """Pads the last two dimensions with copies of the edge elements."""


class ReplicationPad3d(_Pad, dims=3, mode="replicate"):
    """Pads the last three dimensions with copies of the edge elements."""


class CircularPad1d(_Pad, dims=1, mode="circular"):
    """Pads the last dimension with elements from the opposite edge (circular padding)."""


class CircularPad2d(_Pad, dims=2, mode="circular"):
    """Pads the last two dimensions with elements from the opposite edge (circular padding)."""


class CircularPad3d(_Pad, dims=3, mode="circular"):
    """Pads the last three dimensions with elements from the opposite edge (circular padding)."""
