"""The current scope of a thread or task, and the registration of new objects with it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING
from weakref import ref

from scopes.core.tallies import accounts_of
from scopes.tracking.tracking import current as tracking
from scopes.tracking.tracking import note_created

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope
    from scopes.core.scoped import Scoped

# Each thread and each asyncio task sees its own. It may name a scope that ended in another context;
# `current_dispose_scope` then looks outward.
current: ContextVar[DisposeScope | None] = ContextVar("current_dispose_scope", default=None)


def current_dispose_scope() -> DisposeScope | None:
    """Return the scope where new tensors register: the innermost of this context that has not ended.

    Examples
    --------
    >>> from scopes import current_dispose_scope, new_dispose_scope
    >>> with new_dispose_scope() as scope:
    ...     current_dispose_scope() is scope
    True
    """
    scope = current.get()
    if scope is None or scope._members is not None:
        return scope
    scope = scope.outer_scope  # it ended in another context
    current.set(scope)
    return scope


def register(x: Scoped) -> None:
    """Count the new object `x` and let the current scope own it; the last step of its creation.

    Without a scope it counts as created outside, and nobody owns it. Takes no lock.

    Examples
    --------
    >>> from scopes import new_dispose_scope
    >>> from scopes.lowlevel import Scoped, register
    >>> class Lease(Scoped):
    ...     def __init__(self):
    ...         self.is_held = True
    ...         register(self)
    ...
    ...     def _clear(self):
    ...         was_held, self.is_held = self.is_held, False
    ...         return was_held
    >>> with new_dispose_scope():
    ...     lease = Lease()
    >>> lease.is_held
    False
    """
    account = accounts_of(type(x)).mine
    while (scope := current_dispose_scope()) is not None:
        x._scope = scope
        entry = ref(x)
        # From here on without a call, as told in `scopes.core.entries`.
        left = scope._left = scope._left - 1
        if left >= 0:
            scope._young[left] = entry
            x._tally = account.inside
            x._tally.created += 1
            break
        scope._make_places()  # or it has ended meanwhile
    else:
        x._scope = None
        x._tally = account.outside
        x._tally.created += 1
    if tracking.tracker is not None:
        note_created(x, x._scope)
