"""The handle: a tensor's claim on its storage, between two tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scopes import Disposable, TensorDisposedError
from tensor.core.storage import leave
from tensor.memory.holders import kinds_that_hold

if TYPE_CHECKING:
    from tensor.core.storage import Array, Hold, Seat


class Handle(Disposable):
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

    __slots__ = ("_array", "_hold", "_seat")

    def __init__(self, array: Array) -> None:
        # Not registered: it counts on for the tensor that hands it its count.
        self._array: Array | None = array
        self._hold: Hold = None
        self._seat: Seat | None = None

    @property
    def is_invalid(self) -> bool:
        """Whether the handle was disposed or taken by a tensor."""
        return self._array is None

    def dispose(self) -> None:
        """Give the memory back; counts as the disposal of the tensor whose handle this was."""
        if not self.is_invalid:
            Disposable.dispose(self)

    def _release(self) -> None:
        self._array = self._hold = None
        leave(self)

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
