"""What tensors raise beside Python's own errors, and how errors show what they were given."""

from collections.abc import Callable
from reprlib import Repr

from scopes import TensorDisposedError as TensorDisposedError


def _shortening() -> Repr:
    short = Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 200, 200
    return short


# What a user gave, for an error: however long or deep it is, and whether or not it contains itself.
shown: Callable[[object], str] = _shortening().repr


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
