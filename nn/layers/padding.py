"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence

from nn import functional as F
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._errors import InvalidArgumentError, shown


class _Pad(Module):
    """Base class of padding layers, over `dims` dimensions."""

    def __init__(self, dims: int, padding: int | Sequence[int]) -> None:
        super().__init__()
        count = 2 * dims
        many = (padding,) * count if isinstance(padding, int) else tuple(padding)
        if len(many) != count or any(type(n) is not int for n in many):
            raise InvalidArgumentError(
                f"{type(self).__name__}: padding must be an integer, or {count} of them (before and after "
                f"each dimension, starting with the last), not {shown(padding)}"
            )
        self.padding = many

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


@set_module("nn")
class ConstantPad1d(_Pad):
    """Pads the last dimension with a constant value.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.
    value
        The value of the added elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ConstantPad1d(1, 0.5)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(1, padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the padding and the value."""
        return f"padding={self.padding}, value={self.value}"


@set_module("nn")
class ConstantPad2d(_Pad):
    """Pads the last two dimensions with a constant value.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.
    value
        The value of the added elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ConstantPad2d(1, 0.5)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(2, padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the padding and the value."""
        return f"padding={self.padding}, value={self.value}"


@set_module("nn")
class ConstantPad3d(_Pad):
    """Pads the last three dimensions with a constant value.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.
    value
        The value of the added elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ConstantPad3d(1, 0.5)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(3, padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the padding and the value."""
        return f"padding={self.padding}, value={self.value}"


@set_module("nn")
class ZeroPad1d(_Pad):
    """Pads the last dimension with zeros.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ZeroPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(1, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant")


@set_module("nn")
class ZeroPad2d(_Pad):
    """Pads the last two dimensions with zeros.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ZeroPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(2, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant")


@set_module("nn")
class ZeroPad3d(_Pad):
    """Pads the last three dimensions with zeros.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ZeroPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(3, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "constant")


@set_module("nn")
class ReflectionPad1d(_Pad):
    """Pads the last dimension with a reflection of the input, without repeating the edge.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReflectionPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(1, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "reflect")


@set_module("nn")
class ReflectionPad2d(_Pad):
    """Pads the last two dimensions with a reflection of the input, without repeating the edge.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReflectionPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(2, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "reflect")


@set_module("nn")
class ReflectionPad3d(_Pad):
    """Pads the last three dimensions with a reflection of the input, without repeating the edge.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReflectionPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(3, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "reflect")


@set_module("nn")
class ReplicationPad1d(_Pad):
    """Pads the last dimension with copies of the edge elements.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReplicationPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(1, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "replicate")


@set_module("nn")
class ReplicationPad2d(_Pad):
    """Pads the last two dimensions with copies of the edge elements.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReplicationPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(2, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "replicate")


@set_module("nn")
class ReplicationPad3d(_Pad):
    """Pads the last three dimensions with copies of the edge elements.

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ReplicationPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(3, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "replicate")


@set_module("nn")
class CircularPad1d(_Pad):
    """Pads the last dimension with elements from the opposite edge (circular padding).

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CircularPad1d(1)(tensor.ones((1, 2, 3))).shape
    (1, 2, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(1, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "circular")


@set_module("nn")
class CircularPad2d(_Pad):
    """Pads the last two dimensions with elements from the opposite edge (circular padding).

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CircularPad2d(1)(tensor.ones((1, 2, 3, 3))).shape
    (1, 2, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(2, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "circular")


@set_module("nn")
class CircularPad3d(_Pad):
    """Pads the last three dimensions with elements from the opposite edge (circular padding).

    Parameters
    ----------
    padding
        The numbers of elements: one integer, or pairs of before and after for each dimension, from the
        last dimension to the first. Negative numbers remove elements.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.CircularPad3d(1)(tensor.ones((1, 2, 3, 3, 3))).shape
    (1, 2, 5, 5, 5)
    """

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(3, padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return the padded input."""
        return F.pad(input, self.padding, "circular")
