"""What scopes raise."""


class ScopeDisposedError(RuntimeError):
    """A scope was used after it had ended.

    Open a new one with ``new_dispose_scope()``, or move what should live longer before the scope ends
    (``scope.move_to_outer(x)``, ``scope.detach(x)``).
    """


class TensorDisposedError(RuntimeError):
    """An empty tensor or another empty disposable was used.

    It was disposed, its scope ended, or its handle moved elsewhere.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,))
    >>> x.dispose()
    >>> x + 1
    Traceback (most recent call last):
        ...
    scopes.core.errors.TensorDisposedError: this tensor is empty: it was disposed by dispose(). ...
    """
