"""Exceptions of tensors, and the form of values in error messages."""

from collections.abc import Callable
from reprlib import Repr

from scopes import TensorDisposedError as TensorDisposedError


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
# What a user gave, for an error: however long or deep it is, and whether or not it contains itself.
shown: Callable[[object], str] = _Short().repr


class InvalidArgumentError(ValueError, RuntimeError):
    """Values that an operation can't work on: shapes that don't fit together, a device that is not there.

    A ``ValueError``, as Python and NumPy say, and a ``RuntimeError``, which is what programs written for
    PyTorch catch.

    Examples
    --------
    >>> import tensor
    >>> try:
    ...     tensor.ones((2,)) + tensor.ones((3,))
    ... except RuntimeError as error:
    ...     isinstance(error, ValueError)
    True
    """

    __module__ = "tensor"
