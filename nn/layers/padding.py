"""Padding layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nn import functional as F
from nn.layers.dimensions import Dimensional
from tensor.lowlevel import InvalidArgumentError, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor


# The parameter of all classes.
_PADDING = """
        Parameters
        ----------
        padding
            The numbers of elements: one integer, or pairs of before and after for each dimension, from the
            last dimension to the first. Negative numbers remove elements.
"""


class _Pad(Dimensional):
    _mode: ClassVar[str]
    _sections = (
        _PADDING
        + """
        Examples
        --------
        >>> import nn, tensor
        >>> nn.{name}(1)(tensor.ones((1, 2, {sizes[3]}))).shape
        (1, 2, {sizes[5]})
    """
    )

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        count = 2 * self._dims
        many = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(many) != count or any(type(n) is not int for n in many):
            raise InvalidArgumentError(
                f"{type(self).__name__}: padding is an integer, or {count} of them, before and after each "
                f"dimension from the last on, not {shown(padding)}"
            )
        self.padding = many

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    _mode = "constant"
    _sections = (
        _PADDING
        + """        value
            The value of the added elements.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.{name}(1, 0.5)(tensor.ones((1, 2, {sizes[3]}))).shape
        (1, 2, {sizes[5]})
    """
    )

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, self._mode, self.value)

    def extra_repr(self) -> str:
        """Return the padding and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    _mode = "constant"


class _ReflectionPad(_Pad):
    _mode = "reflect"


class _ReplicationPad(_Pad):
    _mode = "replicate"


class _CircularPad(_Pad):
    _mode = "circular"


class ConstantPad1d(_ConstantPad, dims=1):
    """Pads the last dimension with a constant value."""


class ConstantPad2d(_ConstantPad, dims=2):
    """Pads the last two dimensions with a constant value."""


class ConstantPad3d(_ConstantPad, dims=3):
    """Pads the last three dimensions with a constant value."""


class ZeroPad1d(_ZeroPad, dims=1):
    """Pads the last dimension with zeros."""


class ZeroPad2d(_ZeroPad, dims=2):
    """Pads the last two dimensions with zeros."""


class ZeroPad3d(_ZeroPad, dims=3):
    """Pads the last three dimensions with zeros."""


class ReflectionPad1d(_ReflectionPad, dims=1):
    """Pads the last dimension with a reflection of the input, without repeating the edge."""


class ReflectionPad2d(_ReflectionPad, dims=2):
    """Pads the last two dimensions with a reflection of the input, without repeating the edge."""


class ReflectionPad3d(_ReflectionPad, dims=3):
    """Pads the last three dimensions with a reflection of the input, without repeating the edge."""


class ReplicationPad1d(_ReplicationPad, dims=1):
    """Pads the last dimension with copies of the edge elements."""


class ReplicationPad2d(_ReplicationPad, dims=2):
    """Pads the last two dimensions with copies of the edge elements."""


class ReplicationPad3d(_ReplicationPad, dims=3):
    """Pads the last three dimensions with copies of the edge elements."""


class CircularPad1d(_CircularPad, dims=1):
    """Pads the last dimension with elements from the opposite edge (circular padding)."""


class CircularPad2d(_CircularPad, dims=2):
    """Pads the last two dimensions with elements from the opposite edge (circular padding)."""


class CircularPad3d(_CircularPad, dims=3):
    """Pads the last three dimensions with elements from the opposite edge (circular padding)."""
