"""What a scope owns without keeping it alive: the base class of tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scopes.core.tallies import nowhere
from scopes.tracking.records import ending_by
from scopes.tracking.tracking import current as tracking

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scopes.core.scope import DisposeScope
    from scopes.core.tallies import Tally


class Scoped:
    """Base of objects that a scope owns by a weak reference, and that statistics count.

    A subclass registers each new object (``scopes.lowlevel.register``), and gives back what the object
    holds in ``_clear``. There is no finalizer: what goes with its last reference is counted by the
    references to its tally. A subclass whose ``_clear`` must run then too says
    ``__del__ = Scoped._finalize``.
    """

    __slots__ = ("__weakref__", "_scope", "_tally")

    # The owner, or once disposed by its end, the scope that ended.
    _scope: DisposeScope | None
    # Where it is counted; `nowhere` once it is empty.
    _tally: Tally

    __hash__ = object.__hash__

    def _end_with(self, scope: DisposeScope | None) -> None:
        """Dispose for `scope`, unless another one owns this by now; for None whoever owns it."""
        if scope is None:
            self.dispose()
        elif self._scope is scope:
            self.dispose()
            self._leave()  # what was empty before may have kept its place, or been moved here since

    def _clear(self) -> bool:
        """Give back what is held and tell whether there was anything. Must not raise."""
        raise NotImplementedError

    def _raise_if_disposed(self) -> None:
        """Raise the subclass's own error when there is nothing left to own."""
        raise NotImplementedError

    def _footprint(self) -> tuple[int, int]:
        """Return what tells the memory held from other memory, and its size in bytes."""
        return id(self), 0

    def _keeps(self, seen: set[int]) -> Iterable[tuple[int, int]]:  # noqa: ARG002  # for those that go further
        """Yield what ``_footprint`` returns, for all memory that this keeps; go past nothing in `seen`."""
        return (self._footprint(),)

    def dispose(self) -> None:
        """Give back what is held, at once; a second call does nothing.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,))
        >>> x.dispose()
        >>> x.is_invalid
        True
        """
        scope = self._scope
        if self._clear():
            # From here on without a call, but for the last ones: on another thread it may be moved.
            self._tally.disposed += 1
            self._tally = nowhere
            self._leave()
            if tracking.tracker is not None:
                is_by_scope = scope is not None and scope._members is None
                tracking.tracker.ended(self, ending_by(scope if is_by_scope else None))

    def _finalize(self) -> None:
        """Clear what its last reference left behind. On any thread: no lock, no call that can raise."""
        if hasattr(self, "_tally") and self._clear():
            self._tally = nowhere
            self._leave()

    def _leave(self) -> None:
        """Leave the owner, if there is one."""
        scope = self._scope
        if scope is not None and scope._members is not None:
            self._scope = None

    @property
    def owning_dispose_scope(self) -> DisposeScope | None:
        """The scope that will dispose this, or None.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     tensor.ones((2,)).owning_dispose_scope is scope
        True
        """
        scope = self._scope
        return scope if scope is not None and scope._members is not None else None

    def detach_from_dispose_scope(self) -> Self:
        """Leave the owning scope: from now on only references and ``dispose()`` decide.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope():
        ...     x = tensor.ones((2,)).detach_from_dispose_scope()
        >>> x.sum().item()
        2.0
        """
        scope = self.owning_dispose_scope
        return self if scope is None else scope.detach(self)

    def move_to_outer_dispose_scope(self) -> Self:
        """Move to the scope around the owning one; without an owner nothing happens.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as outer:
        ...     with new_dispose_scope():
        ...         x = tensor.ones((2,)).move_to_outer_dispose_scope()
        ...     x in outer
        True
        """
        scope = self.owning_dispose_scope
        return self if scope is None else scope.move_to_outer(self)

    def move_to_other_dispose_scope(self, other: DisposeScope | Scoped | None) -> Self:
        """Move to `other`, or to the owner of `other`; None detaches. Without an owner nothing happens.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as outer:
        ...     total = tensor.zeros((2,))
        ...     with new_dispose_scope():
        ...         x = tensor.ones((2,)).move_to_other_dispose_scope(total)
        ...     x in outer
        True
        """
        scope = self.owning_dispose_scope
        if scope is None:
            return self
        return scope.move_to_other(other.owning_dispose_scope if isinstance(other, Scoped) else other, self)
