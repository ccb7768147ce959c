"""Who owns a disposable, how ownership changes hands, and how what is owned is disposed.

A ``Scoped`` object remembers its owner itself and may be registered, disposed and finalized at any moment on
any thread; none of that takes the lock. What looks at an owner and changes it stands between two calls:
CPython hands the GIL over at calls and backward jumps only, so nobody sees it half done. (A build without
the GIL has no such promise.)
"""

from __future__ import annotations

import os
import threading
from itertools import repeat
from operator import call
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary, ref

from scopes._containers import Closable, Disposable, is_closable, is_disposable
from scopes._scoped import Scoped
from scopes._tallies import Account, accounts_of

if TYPE_CHECKING:
    from scopes._scope import DisposeScope

# What a scope owns, oldest first, as keys that return it when called: weak references of tensors, and for
# resources of the user's own something that holds them.
Members = dict[Any, None]

# Held while several objects change hands together and while a scope ends. Under it no code of the user runs
# and no other lock is taken, so that finalizers may end scopes. Read it through the module: a fork renews it.
lock = threading.RLock()


def _renew_lock_after_fork() -> None:
    global lock
    lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock_after_fork)

# By id, who owns a resource of the user's own, which has no place to remember it. The scope holds the
# resource, so an id can't be used again while its entry is here. Weak: a scope that is dropped without an
# end lets go of its resources.
_owner_of_resource: WeakValueDictionary[int, DisposeScope] = WeakValueDictionary()


def may_be_owned(x: object) -> bool:
    """Tell whether a scope may own `x`: a disposable, or something with ``close()`` that was attached."""
    return is_disposable(x) or (is_closable(x) and id(x) in _owner_of_resource)


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
    scope = x._scope if isinstance(x, Scoped) else _owner_of_resource.get(id(x))
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


def give(x: object, scope: DisposeScope) -> None:
    """Make `scope` the owner of `x`, whoever owned it. Under the lock."""
    if not isinstance(x, Scoped):
        take(x)
        members = scope._open_members("given a disposable")
        _owner_of_resource[id(x)] = scope
        key = scope._resources[id(x)] = repeat(x).__next__
        members[key] = None
        return
    new = ref(x, scope._forget)
    # From here on without a call, but for the last.
    if scope._members is None:
        scope._open_members("given a disposable")
        return
    before, x._scope = x._scope, scope
    place, x._place = x._place, new
    scope._members[new] = None
    if before is None:
        _cross(x)
    elif place is not None and before._members is not None:
        before._members.pop(place, None)


def take(x: object) -> None:
    """Leave `x` without an owner. Under the lock."""
    if isinstance(x, Scoped):
        # From here on without a call, but for the last ones.
        scope, x._scope = x._scope, None
        place, x._place = x._place, None
        if scope is not None:
            if place is not None and scope._members is not None:
                scope._members.pop(place, None)
            _cross(x)
    else:
        scope = _owner_of_resource.pop(id(x), None)
        if scope is not None and scope._members is not None:
            scope._members.pop(scope._resources.pop(id(x), None), None)


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


def alive(members: Members) -> list[object]:
    """Return the `members` of a scope that are still there, oldest first."""
    # In one go, all of it in C: members come and go on other threads, and a weak reference in a list of ours
    # could find its entry gone when its callback takes it out.
    there = list(map(call, members))
    return [x for x in there if x is not None]


def nbytes_of(members: Members) -> int:
    """Return the memory of what is alive among `members`, in bytes: what several share counts once."""
    sizes: dict[int, int] = {}
    for key, nbytes in map(footprint_of, alive(members)):
        sizes[key] = max(nbytes, sizes.get(key, 0))
    return sum(sizes.values())


def dispose_each(items: list[object], scope: DisposeScope | None) -> None:
    """Dispose `items`, the last first, and empty the list.

    With a `scope`, what has found another owner since is left to that one. What single ones raise comes at
    the end, as one group; after an interrupt too the rest is disposed first.
    """
    errors: list[BaseException] = []
    x: object = None
    while items:
        try:
            while items:
                x = items.pop()
                if isinstance(x, Scoped):
                    x._end_with(scope)
                else:
                    _dispose_resource(x, scope)
        except BaseException as error:
            errors.append(error)
    x = None  # an error's traceback holds this frame
    if errors:
        _raise(errors, "while disposing" if scope is None else f"while {scope} disposed its members")


def _dispose_resource(x: object, scope: DisposeScope | None) -> None:
    with lock:
        if scope is not None and _owner_of_resource.get(id(x)) is not scope:
            return
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
