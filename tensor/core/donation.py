"""Donated tensors: the next op may use their memory for its result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor.core.plain import plain
from tensor.core.tensor import Tensor
from tensor.memory.leases import books

if TYPE_CHECKING:
    from tensor.core.storage import Hold


class Donated(Tensor):
    """What ``donate()`` returns: a tensor whose hold every op finds missing, and so takes the long way."""

    __slots__ = ("_kept",)

    _kept: Hold

    @property
    def _hold(self) -> Hold:
        return None

    @_hold.setter
    def _hold(self, hold: Hold) -> None:
        self._kept = hold

    def _release(self) -> None:
        books.donation_miss += 1
        super()._release()

    def __del__(self) -> None:
        if getattr(self, "_array", None) is not None:
            books.donation_miss += 1

    def _drop(self) -> None:
        """Let the memory go after the op that could not use it."""
        self._ending = "the op that it was donated to has used it"
        self.dispose()

    def _hand_over(self) -> Hold:
        """Leave the memory to the op that has written its result there; return what counts it."""
        hold = self._kept
        self._drop()
        books.donation_miss -= 1
        books.donation_reuse += 1
        return hold


plain.donated = Donated
