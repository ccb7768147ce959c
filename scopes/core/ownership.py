"""Who owns a disposable, how ownership changes hands, and how what is owned is disposed.

A ``Scoped`` object remembers its owner itself and may be registered, disposed and finalized at any moment on
any thread; none of that takes the lock. What looks at an owner and changes it stands between two calls:
CPython hands the GIL over at calls and backward jumps only, so nobody sees it half done. (A build without
the GIL has no such promise.)
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary, ref

from scopes._containers import Closable, Disposable, is_closable, is_disposable
from scopes.core.scoped import Scoped
from scopes.core.tallies import Account, accounts_of

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

# Held while several objects change hands together. Under it no code of the user runs and no other lock is
# taken. Read it through the module: a fork renews it.
lock = threading.RLock()


def _renew_lock_after_fork() -> None:
    global lock
    lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock_after_fork)


class _Held:
    """A resource of the user's own, which has no place to remember its owner; the entry of its scope."""

    __slots__ = ("__weakref__", "_owner", "resource")

    def __init__(self, resource: object, scope: DisposeScope) -> None:
        self.resource: object = resource
        self._owner = ref(scope)  # weak: the scope holds this

    @property
    def _scope(self) -> DisposeScope | None:
        return None if self.resource is None else self._owner()

    def __call__(self) -> _Held:
        return self


# By id of the resource. Its scope holds it, so an id can't be used again while its entry is here. Weak: a
# scope that is dropped without an end lets go of its resources.
_held: WeakValueDictionary[int, _Held] = WeakValueDictionary()


def may_be_owned(x: object) -> bool:
    """Tell whether a scope may own `x`: a disposable, or something with ``close()`` that was attached."""
    return is_disposable(x) or (is_closable(x) and id(x) in _held)


def may_be_attached(x: object) -> bool:
    """Tell whether a scope could dispose `x`."""
    return is_disposable(x) or is_closable(x)


def owner_of(x: object) -> DisposeScope | None:
    """Return the open scope that owns `x`, a tensor or a resource that was attached; or None.

    Examples
    --------
    >>> import io
    >>> from scopes import new_dispose_scope
    >>> from scopes.lowlevel import owner_of
    >>> with new_dispose_scope() as scope:
    ...     file = scope.attach(io.StringIO())
    ...     owner_of(file) is scope
    True
    """
    known = x if isinstance(x, Scoped) else _held.get(id(x))
    scope = None if known is None else known._scope
    return scope if scope is not None and scope._members is not None else None


def account_of(x: object) -> Account | None:
    """Return where a resource of the user's own is counted. Not under the lock: it may open an account."""
    return None if isinstance(x, Scoped) else accounts_of(type(x)).mine


def count_attached(x: object, account: Account | None) -> None:
    if isinstance(x, Scoped):
        x._tally.attached += 1
    elif account is not None:
        account.inside.attached += 1


def count_detached(x: object, account: Account | None) -> None:
    if isinstance(x, Scoped):
        x._tally.detached += 1
    elif account is not None:
        account.inside.detached += 1


def give(x: object, scope: DisposeScope) -> object:
    """Make `scope` the owner of `x`, whoever owned it, and return what its entry returns. Under the lock."""
    if not isinstance(x, Scoped):
        take(x)
        held = _held[id(x)] = _Held(x, scope)
        scope._enter(held)
        return held
    before, x._scope = x._scope, scope
    scope._enter(ref(x))
    if before is None:
        _cross(x)
    return x


def end_late(given: list[object], scope: DisposeScope) -> None:
    """Dispose what was given to `scope` if it has ended meanwhile, on another thread. Not under the lock."""
    if scope._members is None:
        dispose_each(given, scope)


def take(x: object) -> None:
    """Leave `x` without an owner. Under the lock."""
    if isinstance(x, Scoped):
        scope, x._scope = x._scope, None
        if scope is not None:
            _cross(x)
    else:
        held = _held.pop(id(x), None)
        if held is not None:
            held.resource = None


def _cross(x: Scoped) -> None:
    """Count `x` on the other side: it has found an owner, or left the one it had."""
    x._tally.departed += 1
    x._tally = x._tally.other
    x._tally.arrived += 1


def footprint_of(x: object) -> tuple[int, int]:
    """Return what tells the memory under `x` from other memory, and its size in bytes."""
    if isinstance(x, Scoped):
        return x._footprint()
    nbytes = getattr(x, "nbytes", 0)
    return id(x), nbytes if isinstance(nbytes, int) else 0


def resource_of(x: object) -> object:
    """Return what an entry of a scope stands for, given what it returned."""
    return x.resource if isinstance(x, _Held) else x


def members_of(scope: DisposeScope) -> list[object]:
    """Return what `scope` owns, oldest first."""
    found: dict[int, object] = {}
    for x in scope._there():
        if x is not None and x._scope is scope:
            found.pop(id(x), None)  # one that left and came back is as young as its last entry
            found[id(x)] = resource_of(x)
    return list(found.values())


def nbytes_of(scope: DisposeScope) -> int:
    """Return the memory of what `scope` owns, in bytes: what several share counts once."""
    sizes: dict[int, int] = {}
    for key, nbytes in map(footprint_of, members_of(scope)):
        sizes[key] = max(nbytes, sizes.get(key, 0))
    return sum(sizes.values())


def dispose_each(items: list[object], scope: DisposeScope | None) -> None:
    """Dispose `items`, the last first, and empty the list.

    With a `scope`, they are what its entries return: what has another owner is left to that one, and None is
    nobody. What single ones raise comes at the end, as one group; after an interrupt too the rest is
    disposed first.
    """
    errors: list[BaseException] = []
    x: object = None
    while items:
        try:
            while items:
                x = items.pop()
                if isinstance(x, Scoped):
                    x._end_with(scope)
                elif x is not None:
                    _dispose_resource(x, scope)
        except BaseException as error:
            errors.append(error)
    x = None  # an error's traceback holds this frame
    if errors:
        _raise(errors, "while disposing" if scope is None else f"while {scope} disposed its members")


def _dispose_resource(x: object, scope: DisposeScope | None) -> None:
    with lock:
        if isinstance(x, _Held):
            if x._scope is not scope:
                return
            x = x.resource
        take(x)
    if isinstance(x, Disposable):
        x.dispose()
    elif isinstance(x, Closable):
        x.close()


def _raise(errors: list[BaseException], when: str) -> None:
    interrupt = next((error for error in errors if not isinstance(error, Exception)), None)
    others = [error for error in errors if error is not interrupt]
    # The frame that caught them holds this list, and their tracebacks hold that frame.
    errors.clear()
    try:
        if interrupt is None:
            raise _group(others, when)
        # Alone, because `except KeyboardInterrupt` and an exit code look for it alone.
        if not others:
            raise interrupt
        raise interrupt from _group(others, when)
    finally:
        interrupt = None
        others.clear()


def _group(errors: list[BaseException], when: str) -> BaseExceptionGroup[BaseException]:
    return BaseExceptionGroup(f"{len(errors)} error{'s' * (len(errors) != 1)} {when}", errors)
