"""What tensors raise beside Python's own errors, and how errors show what they were given."""

from reprlib import Repr


class TensorDisposedError(RuntimeError):
    """An empty tensor was used: it was disposed, its scope ended, or its handle moved elsewhere.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,))
    >>> x.dispose()
    >>> x + 1
    Traceback (most recent call last):
        ...
    tensor._errors.TensorDisposedError: this tensor is empty: it was disposed by dispose(). ...
    """


def _shortening() -> Repr:
    short = Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 200, 200
    return short


# What a user gave, for an error: however long or deep it is, and whether or not it contains itself.
shown = _shortening().repr
