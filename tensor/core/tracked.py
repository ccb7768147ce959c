"""Tensors while tracking is on: a class that tells of each of its objects when it is made and when it ends.

Operations make objects of ``plain.kind``, so tracking costs them nothing while it is off: the class stands in
for `Tensor` only while it is on. That a tensor has been made is seen where its owner is set, near the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes.lowlevel import (
    Scoped,
    count_as,
    ending_by,
    measure_memory_by,
    note_ended,
    tracking,
    when_tracking_changes,
)
from tensor.core.plain import plain
from tensor.core.tensor import Tensor
from tensor.memory.accounting import take_stock
from tensor.memory.books import owner_of
from tensor.memory.leases import books

if TYPE_CHECKING:
    from scopes import DisposeScope

_slot: Any = Scoped.__dict__["_scope"]


class TrackedTensor(Tensor):
    """A tensor that was made while tracking was on; to everybody else it is a `Tensor`."""

    __slots__ = ()

    def _end_with(self, scope: DisposeScope | None) -> None:
        # Held until the end is noted: on another thread new memory may come to the address of what is gone.
        array = self._array
        super()._end_with(scope)
        if array is not None and self._array is None:
            note_ended(self, ending_by(scope))


class _Nascent(Tensor):
    """A tensor in the making: it turns into a `TrackedTensor` where its owner is set for the first time.

    Later moves are no creations. They must be single steps, too, which a property would not be.
    """

    __slots__ = ()

    @property
    def _scope(self) -> DisposeScope | None:
        scope: DisposeScope | None = _slot.__get__(self)
        return scope

    @_scope.setter
    def _scope(self, scope: DisposeScope | None) -> None:
        _slot.__set__(self, scope)
        if scope is not None and scope._members is None:
            return  # it ended on another thread: `register` looks for one that is open
        self.__class__ = TrackedTensor  # type: ignore[assignment]  # a sibling of the same layout
        tracker, array = tracking.tracker, self._array
        if tracker is None or array is None:
            return
        owner = array if array.base is None else owner_of(array)
        tracker.enter(self, scope, "Tensor", id(owner), owner.nbytes, 2)


for _kind in (TrackedTensor, _Nascent):
    _kind.__name__ = Tensor.__name__
    _kind.__qualname__ = Tensor.__qualname__
    _kind.__module__ = Tensor.__module__
    count_as(_kind, Tensor)


def _switch(is_on: bool) -> None:
    plain.kind = _Nascent if is_on else Tensor


when_tracking_changes(_switch)


def _memory() -> tuple[int, int]:
    return take_stock(), books.cached


measure_memory_by(_memory)
