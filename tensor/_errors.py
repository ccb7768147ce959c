"""What tensors raise beside Python's own errors."""


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
