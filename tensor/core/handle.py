"""The handle: a tensor's claim on its storage, between two tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scopes.lowlevel import nowhere
from tensor._errors import TensorDisposedError
from tensor.core.storage import leave
from tensor.memory.holders import kinds_that_hold

if TYPE_CHECKING:
    from scopes.lowlevel import Tally
    from tensor.core.storage import Array, Hold, Seat


class Handle:
    """A tensor's claim on its storage, between two tensors. Dropped unused, it gives the memory back.

    Examples
    --------
    >>> import tensor
    >>> handle = tensor.ones((2,)).move_handle()
    >>> handle.is_invalid
    False
    >>> handle.dispose()
    >>> handle.is_invalid
    True
    """

    __slots__ = ("__weakref__", "_array", "_hold", "_seat", "_tally")

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array
        self._hold: Hold = None
        self._seat: Seat | None = None
        self._tally: Tally = nowhere

    @property
    def is_invalid(self) -> bool:
        """Whether the handle was disposed or taken by a tensor."""
        return self._array is None

    def dispose(self) -> None:
        """Give the memory back; counts as the disposal of the tensor whose handle this was."""
        array = self._array
        self._array = self._hold = None
        if array is None:
            return
        leave(self)
        self._tally.disposed += 1
        self._tally = nowhere

    def _take(self) -> tuple[Array, Seat | None]:
        array = self._array
        if array is None:
            raise TensorDisposedError(
                "this handle is empty: it was disposed, or a tensor took it before. Take a handle once, with "
                "x.move_handle()"
            )
        seat = self._seat
        self._array = None
        leave(self)
        return array, seat


kinds_that_hold.append(Handle)
