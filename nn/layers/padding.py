"""Layers that add elements at the edges of the dimensions of space."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from nn import functional as F
from nn.module.module import Module
from tensor.lowlevel import InvalidArgumentError, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor


class _Pad(Module):
    _space: ClassVar[int]
    _mode: ClassVar[str]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        count = 2 * self._space
        many = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(many) != count or any(type(n) is not int for n in many):
            raise InvalidArgumentError(
                f"{type(self).__name__}: padding is an integer, or {count} of them, before and after each "
                f"dimension "
                f"from the last on, not {shown(padding)}"
            )
        self.padding = many

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    _mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Pad."""
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


class ConstantPad1d(_ConstantPad):
    """Adds a value at the edges of the last dimension.

    Parameters
    ----------
    padding
        How many elements: one integer, or left and right; negative ones take away.
    value
        What is added.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ConstantPad1d(1, 0.5)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    _space = 1


class ConstantPad2d(_ConstantPad):
    """Adds a value at the edges of the last two dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top and bottom; negative ones take away.
    value
        What is added.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ConstantPad2d(1, 0.5)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    _space = 2


class ConstantPad3d(_ConstantPad):
    """Adds a value at the edges of the last three dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top, bottom, front and back; negative ones take away.
    value
        What is added.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ConstantPad3d(1, 0.5)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    _space = 3


class ZeroPad1d(_ZeroPad):
    """Adds zeros at the edges of the last dimension.

    Parameters
    ----------
    padding
        How many elements: one integer, or left and right; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ZeroPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    _space = 1


class ZeroPad2d(_ZeroPad):
    """Adds zeros at the edges of the last two dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top and bottom; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ZeroPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    _space = 2


class ZeroPad3d(_ZeroPad):
    """Adds zeros at the edges of the last three dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top, bottom, front and back; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ZeroPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    _space = 3


class ReflectionPad1d(_ReflectionPad):
    """Adds what a mirror at the edge element shows at the edges of the last dimension.

    Parameters
    ----------
    padding
        How many elements: one integer, or left and right; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReflectionPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    _space = 1


class ReflectionPad2d(_ReflectionPad):
    """Adds what a mirror at the edge element shows at the edges of the last two dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top and bottom; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReflectionPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    _space = 2


class ReflectionPad3d(_ReflectionPad):
    """Adds what a mirror at the edge element shows at the edges of the last three dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top, bottom, front and back; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReflectionPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    _space = 3


class ReplicationPad1d(_ReplicationPad):
    """Adds copies of the edge element at the edges of the last dimension.

    Parameters
    ----------
    padding
        How many elements: one integer, or left and right; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReplicationPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    _space = 1


class ReplicationPad2d(_ReplicationPad):
    """Adds copies of the edge element at the edges of the last two dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top and bottom; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReplicationPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    _space = 2


class ReplicationPad3d(_ReplicationPad):
    """Adds copies of the edge element at the edges of the last three dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top, bottom, front and back; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReplicationPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    _space = 3


class CircularPad1d(_CircularPad):
    """Adds what lies at the other edge at the edges of the last dimension.

    Parameters
    ----------
    padding
        How many elements: one integer, or left and right; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CircularPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    _space = 1


class CircularPad2d(_CircularPad):
    """Adds what lies at the other edge at the edges of the last two dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top and bottom; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CircularPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    _space = 2


class CircularPad3d(_CircularPad):
    """Adds what lies at the other edge at the edges of the last three dimensions.

    Parameters
    ----------
    padding
        How many elements: one integer, or left, right, top, bottom, front and back; negative ones take away.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CircularPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    _space = 3
