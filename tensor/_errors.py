"""Exceptions of tensors, and the form of values in error messages."""

from collections.abc import Callable
from reprlib import Repr

from scopes import TensorDisposedError as TensorDisposedError
from scopes._shared.naming import set_module


class _Short(Repr):
    """``reprlib.Repr`` with limits for error messages."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, 200, 200

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to convert integers with thousands of digits.
        bits = x.bit_length()
        return super().repr_int(x, level) if bits <= _MAX_BITS else f"<an integer of {bits:,} bits>"


# About 300 digits.
_MAX_BITS = 1000
# Returns a shortened repr of a user's object for an error message. The object may contain itself.
shown: Callable[[object], str] = _Short().repr


def first_element(shape: tuple[int, ...]) -> str:
    """Return how to write the first element of a tensor of `shape`."""
    return f"x[{', '.join('0' * len(shape))}]"


@set_module("tensor")
class InvalidArgumentError(ValueError, RuntimeError):
    """An operation does not support these values: shapes that do not match, or a device that does not exist.

    It is a ``ValueError``, as in Python and NumPy, and a ``RuntimeError``, which programs for PyTorch catch.

    Examples
    --------
    >>> import tensor
    >>> try:
    ...     tensor.ones((2,)) + tensor.ones((3,))
    ... except RuntimeError as error:
    ...     isinstance(error, ValueError)
    True
    """
