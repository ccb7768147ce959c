"""Tensors while tracking is on: a class that tells of each of its objects when it is made and when it ends.

Operations make objects of ``plain.kind``, so tracking costs them nothing while it is off: the class stands in
for `Tensor` only while it is on. That a tensor has been made is seen where its owner is set, near the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scopes.lowlevel import Scoped, count_as, note_created, note_ended, when_tracking_changes
from tensor._plain import plain
from tensor._tensor import Tensor

if TYPE_CHECKING:
    from scopes import DisposeScope

_slot: Any = Scoped.__dict__["_scope"]


class TrackedTensor(Tensor):
    """A tensor that was made while tracking was on; to everybody else it is a `Tensor`."""

    __slots__ = ()

    @property
    def _scope(self) -> DisposeScope | None:
        scope: DisposeScope | None = _slot.__get__(self)
        return scope

    @_scope.setter
    def _scope(self, scope: DisposeScope | None) -> None:
        _slot.__set__(self, scope)
        if self._array is not None:
            note_created(self, scope)

    def _end_with(self, scope: DisposeScope | None) -> None:
        was_there = self._array is not None
        super()._end_with(scope)
        if was_there and self._array is None:
            if scope is None:
                note_ended(self, "it was disposed by dispose()")
            else:
                name = "" if scope.name is None else f" {scope.name!r}"
                note_ended(self, f"its dispose scope{name} ended")


TrackedTensor.__name__ = Tensor.__name__
TrackedTensor.__qualname__ = Tensor.__qualname__
TrackedTensor.__module__ = Tensor.__module__
count_as(TrackedTensor, Tensor)


def _switch(is_on: bool) -> None:
    plain.kind = TrackedTensor if is_on else Tensor


when_tracking_changes(_switch)
