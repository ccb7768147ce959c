"""The errors of scopes."""

from __future__ import annotations

from typing import NoReturn, Protocol

from scopes._shared.naming import set_module


class _Named(Protocol):
    """A scope, which these functions only name."""

    name: str | None


@set_module("scopes")
class ScopeDisposedError(RuntimeError):
    """A scope was used after it had ended.

    Open a new scope with ``new_dispose_scope()``, or move objects out before the scope ends
    (``scope.move_to_outer(x)``, ``scope.detach(x)``).
    """


@set_module("scopes")
class TensorDisposedError(RuntimeError):
    """An empty tensor or another empty disposable was used.

    It was disposed, its scope ended, or another object took over its memory.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.ones((2,))
    >>> x.dispose()
    >>> x + 1
    Traceback (most recent call last):
        ...
    scopes.TensorDisposedError: this float32 tensor of shape (2,) is empty: ... dispose(). ...
    """


@set_module("scopes")
class ScopeLimitError(RuntimeError):
    """A scope would own more than its ``limit`` or ``max_members``. Nothing was changed.

    Attributes
    ----------
    scope_name : str or None
        The name of the scope that has the limit.
    figure : str
        The limited quantity: ``"bytes"`` or ``"members"``.
    limit : int
        The limit.
    would_be : int
        The amount that the scope would own.
    largest : tuple of str
        Descriptions of its largest members. They keep nothing alive.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope
    >>> with new_dispose_scope("request", max_members=1):
    ...     x, y = tensor.ones((2,)), tensor.ones((2,))
    Traceback (most recent call last):
        ...
    scopes.ScopeLimitError: the scope 'request' may own 1 member, but would own 2 ...
    """

    def __init__(
        self,
        message: str,
        *,
        scope_name: str | None = None,
        figure: str = "bytes",
        limit: int = 0,
        would_be: int = 0,
        largest: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.scope_name = scope_name
        self.figure = figure
        self.limit = limit
        self.would_be = would_be
        self.largest = largest

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), self.args, self.__dict__)


@set_module("scopes.lowlevel")
def ending_by(scope: _Named | None) -> str:
    """Return a text on how an object ended: by the end of `scope`, or by ``dispose()`` for None."""
    if scope is None:
        return "it was disposed by dispose()"
    return f"its dispose scope{'' if scope.name is None else f' {scope.name!r}'} ended"


def raise_unregistered(kind: type) -> NoReturn:
    """Raise the error for an object of the class `kind` that no ``Disposable.__init__`` registered."""
    name = kind.__name__
    raise RuntimeError(
        f"this {name} was never registered, so no scope owns it and it is not counted: call "
        f"super().__init__() as the last line of {name}.__init__"
    )
