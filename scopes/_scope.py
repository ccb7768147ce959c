"""The scope: who owns what, and what happens to it at the end."""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Self, TypeVar, overload
from weakref import ref

from scopes._containers import find, is_closable, is_disposable
from scopes._errors import ScopeDisposedError
from scopes._scoped import Scoped
from scopes._statistics import accounts_of
from scopes._tracebacks import clear_library_frames

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import TypeVarTuple, Unpack

    Ts = TypeVarTuple("Ts")

    from scopes._statistics import Tally

T = TypeVar("T")

# Each thread and each asyncio task sees its own. It may name a scope that ended in another context;
# `current_dispose_scope` then looks outward.
current: ContextVar[DisposeScope | None] = ContextVar("current_dispose_scope", default=None)

# Who owns a resource of the user's own, which has no place to remember it. Entries go when the scope ends.
_owner_of_resource: dict[int, DisposeScope] = {}

# Held while ownership changes from one scope to another. Registration and finalizers do without: each is one
# dict operation, which the GIL makes whole.
_ownership = threading.RLock()


def _renew_lock_after_fork() -> None:
    global _ownership
    _ownership = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock_after_fork)


class DisposeScope:
    """Owns every tensor created while it is current, and disposes what is left of them at its end.

    It is current from its creation until it is disposed; ``with`` disposes it at the end of the block. It
    holds tensors weakly: one whose last reference goes is given back at once. Resources of other kinds,
    attached by hand, are held until the end.

    Parameters
    ----------
    name
        For reports and errors.

    Examples
    --------
    >>> import tensor
    >>> from scopes import DisposeScope
    >>> with DisposeScope("step") as scope:
    ...     x = tensor.ones((2, 2))
    ...     print(scope)
    <DisposeScope 'step': open, 1 disposable, 16 bytes>
    >>> x.is_invalid
    True
    """

    __slots__ = ("__weakref__", "_members", "_outer", "name")

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        self._outer = current_dispose_scope()
        # By id: tensors as weak references, other resources themselves. None once the scope has ended.
        self._members: dict[int, object] | None = {}
        current.set(self)

    def __enter__(self) -> Self:
        self._open_members("entered")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.dispose()
        finally:
            if error is not None:
                clear_library_frames(error)

    def dispose(self) -> None:
        """End the scope and dispose all that it owns, newest first; a second call does nothing.

        Raises
        ------
        ExceptionGroup
            Of what the members' own ``dispose()`` raised, after all of them were disposed.
        """
        with _ownership:
            members, self._members = self._members, None
        if members is None:
            return
        if current.get() is self:
            current.set(self.outer_scope)
        if members:
            _dispose_each(_alive(members), f"while {self} disposed its members")

    @property
    def outer_scope(self) -> DisposeScope | None:
        """The nearest scope outward that has not ended."""
        outer = self._outer
        while outer is not None and outer._members is None:
            outer = outer._outer
        self._outer = outer
        return outer

    @property
    def is_disposed(self) -> bool:
        """Whether the scope has ended."""
        return self._members is None

    @property
    def disposables_view(self) -> tuple[object, ...]:
        """What the scope owns, oldest first."""
        return tuple(_alive(self._open_members("asked for its members")))

    @property
    def disposables_count(self) -> int:
        """How many the scope owns."""
        return len(self._open_members("asked for its members"))

    @property
    def nbytes(self) -> int:
        """The memory of what the scope owns, in bytes; what several members share counts once."""
        memory: dict[int, int] = {}
        for x in _alive(self._open_members("asked for its size")):
            key, nbytes = x._footprint() if isinstance(x, Scoped) else (id(x), _own_nbytes(x))
            memory[key] = max(nbytes, memory.get(key, 0))
        return sum(memory.values())

    def __len__(self) -> int:
        return self.disposables_count

    def __bool__(self) -> bool:
        return True  # an empty scope is still a scope: `scope or other` must not lose it

    def contains(self, x: object) -> bool:
        """Tell whether the scope owns `x`. A scope that has ended owns nothing."""
        return _owner(x) is self

    def __contains__(self, x: object) -> bool:
        return self.contains(x)

    @overload
    def attach(self, x: T, /) -> T: ...
    @overload
    def attach(self, *xs: Unpack[Ts]) -> tuple[Unpack[Ts]]: ...
    def attach(self, *xs: object) -> object:
        """Take over disposables, from whatever scope owns them.

        Parameters
        ----------
        *xs
            Disposables, or containers of them in any nesting; objects with ``close()`` count too. A module
            is attached as one disposable.

        Returns
        -------
        The argument, or the tuple of several.

        Raises
        ------
        ScopeDisposedError
            If this scope has ended; all owners are as before.
        TensorDisposedError
            If one of the tensors is disposed; all owners are as before.

        Examples
        --------
        >>> import io
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     file = scope.attach(io.StringIO())
        >>> file.closed
        True
        """
        self._open_members("attached to")
        found = find(xs, lambda x: is_disposable(x) or is_closable(x), inside=False)
        for x in found:
            if isinstance(x, Scoped):
                x._raise_if_disposed()
        with _ownership:
            self._open_members("attached to")
            for x in found:
                if _owner(x) is not self:
                    _give(x, self)
                    _tally(x).attached_to_scope += 1
        return xs[0] if len(xs) == 1 else xs

    @overload
    def detach(self, x: T, /) -> T: ...
    @overload
    def detach(self, *xs: Unpack[Ts]) -> tuple[Unpack[Ts]]: ...
    def detach(self, *xs: object) -> object:
        """Let go of what this scope owns among `xs`; no scope will dispose it.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     x, y = scope.detach(tensor.ones((2,)), tensor.zeros((2,)))
        >>> x.is_invalid, y.is_invalid
        (False, False)
        """
        return self._move(None, "detached from", xs)

    @overload
    def move_to_outer(self, x: T, /) -> T: ...
    @overload
    def move_to_outer(self, *xs: Unpack[Ts]) -> tuple[Unpack[Ts]]: ...
    def move_to_outer(self, *xs: object) -> object:
        """Hand what this scope owns among `xs` to the scope around it; an outermost scope detaches it.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope():
        ...     with new_dispose_scope() as inner:
        ...         best = inner.move_to_outer({"loss": tensor.ones((1,))})
        ...     best["loss"].item()
        1.0
        """
        return self._move(self.outer_scope, "moved out of", xs)

    @overload
    def move_to_other(self, other: DisposeScope | None, x: T, /) -> T: ...
    @overload
    def move_to_other(self, other: DisposeScope | None, *xs: Unpack[Ts]) -> tuple[Unpack[Ts]]: ...
    def move_to_other(self, other: DisposeScope | None, *xs: object) -> object:
        """Hand what this scope owns among `xs` to `other`; None detaches it.

        Raises
        ------
        ScopeDisposedError
            If this scope or `other` has ended; all owners are as before.
        """
        if other is not None:
            other._open_members("moved to")
        return self._move(other, "moved out of", xs)

    def dispose_everything(self) -> None:
        """Dispose all that the scope owns; the scope goes on."""
        self.dispose_everything_but()

    def dispose_everything_but(self, *keep: object) -> None:
        """Dispose what the scope owns but for `keep`, containers of them, and what they hold.

        What is in `keep` and not owned by this scope is left as it is.

        Examples
        --------
        >>> import tensor
        >>> from scopes import new_dispose_scope
        >>> with new_dispose_scope() as scope:
        ...     x, y = tensor.ones((1,)), tensor.ones((1,))
        ...     scope.dispose_everything_but([x])
        ...     x.is_invalid, y.is_invalid
        (False, True)
        """
        self._open_members("disposed of everything")
        kept = {id(x) for x in find(keep, _may_be_owned, inside=True)}
        with _ownership:
            members = self._open_members("disposed of everything")
            going = [x for x in _alive(members) if id(x) not in kept]
            for x in going:
                if not isinstance(x, Scoped):
                    _take(x)
        _dispose_each(going, f"while {self} disposed of everything")

    @staticmethod
    def replace_with(original: object, replacement: T) -> T:
        """Give `replacement` the place of `original` in its scope; no counter moves.

        Without an owner nothing happens. ``nn.Parameter`` uses it to take over a tensor.

        Examples
        --------
        >>> import tensor
        >>> from scopes import DisposeScope, new_dispose_scope
        >>> spare = tensor.ones((1,))
        >>> with new_dispose_scope() as scope:
        ...     x = tensor.ones((1,))
        ...     _ = DisposeScope.replace_with(x, spare)
        ...     x in scope, spare in scope
        (False, True)
        """
        if original is replacement:
            return replacement
        if isinstance(replacement, Scoped):
            replacement._raise_if_disposed()
        elif not (is_disposable(replacement) or is_closable(replacement)):
            raise TypeError(
                f"a {type(replacement).__name__} can't replace a {type(original).__name__} in a scope: it has "
                "neither dispose() nor close(), so the scope could not end it. Pass a tensor or another disposable"
            )
        with _ownership:
            scope = _owner(original)
            if scope is not None:
                _take(original)
                _give(replacement, scope)
        return replacement

    def __repr__(self) -> str:
        label = "DisposeScope" if self.name is None else f"DisposeScope {self.name!r}"
        members = self._members
        if members is None:
            return f"<{label}: disposed>"
        count = len(members)
        return f"<{label}: open, {count} disposable{'s' * (count != 1)}, {self.nbytes:,} bytes>"

    def _open_members(self, what: str) -> dict[int, object]:
        members = self._members
        if members is None:
            raise ScopeDisposedError(
                f"{self} can't be {what}: it has ended. Use a scope that is open (current_dispose_scope()), open "
                "one with new_dispose_scope(), or do this before the scope's `with` block ends"
            )
        return members

    def _move(self, target: DisposeScope | None, what: str, xs: tuple[object, ...]) -> object:
        self._open_members(what)
        if len(xs) == 1 and isinstance(xs[0], Scoped):
            found: list[object] = [xs[0]]  # finding it costs 2 us, moving it 1 us
        else:
            found = find(xs, _may_be_owned, inside=True)
        with _ownership:
            self._open_members(what)
            if target is not None:
                target._open_members("moved to")
            for x in found:
                if _owner(x) is not self or target is self:
                    continue
                if target is not None:
                    _give(x, target)
                else:
                    _take(x)
                    _tally(x).detached_from_scope += 1
        return xs[0] if len(xs) == 1 else xs


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


def new_dispose_scope(name: str | None = None) -> DisposeScope:
    """Open a scope: it is current from now on, until it is disposed.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope
    >>> with new_dispose_scope("step"):
    ...     x = tensor.ones((3,))
    >>> x.is_invalid
    True
    """
    return DisposeScope(name)


def dispose(*xs: object) -> None:
    """Dispose `xs`, and all disposables in containers among them.

    Raises
    ------
    ExceptionGroup
        Of what single ones raised, after all were disposed.

    Examples
    --------
    >>> import tensor
    >>> from scopes import dispose
    >>> batch = {"x": tensor.ones((2,)), "y": tensor.ones((2,))}
    >>> dispose(batch)
    >>> batch["x"].is_invalid
    True
    """
    found = find(xs, _may_be_owned, inside=False)
    with _ownership:
        for x in found:
            if not isinstance(x, Scoped):
                _take(x)
    _dispose_each(found, "while disposing")


def register(x: Scoped) -> None:
    """Count the new object `x` and let the current scope own it; the last step of its creation."""
    tally = accounts_of(type(x)).mine.tally
    key, weak = id(x), ref(x)
    x._tally = tally
    scope = current_dispose_scope()
    # From here on without a call: no scope can end between the look at its members and the entry.
    if scope is not None and scope._members is not None:
        scope._members[key] = weak
        x._scope = scope
        tally.created_in_scope += 1
    else:
        x._scope = None
        tally.created_outside_scope += 1


def _may_be_owned(x: object) -> bool:
    return is_disposable(x) or id(x) in _owner_of_resource


def _owner(x: object) -> DisposeScope | None:
    if isinstance(x, Scoped):
        return x.owning_dispose_scope
    return _owner_of_resource.get(id(x))


def _give(x: object, scope: DisposeScope) -> None:
    """Make `scope`, which is open, the owner of `x`. Under the lock."""
    _take(x)
    members = scope._open_members("given a disposable")
    if isinstance(x, Scoped):
        x._scope = scope
        members[id(x)] = ref(x)
    else:
        _owner_of_resource[id(x)] = scope
        members[id(x)] = x


def _take(x: object) -> None:
    """Leave `x` without an owner. Under the lock."""
    owner = _owner(x)
    if owner is not None and owner._members is not None:
        owner._members.pop(id(x), None)
    if isinstance(x, Scoped):
        x._scope = None
    else:
        _owner_of_resource.pop(id(x), None)


def _tally(x: object) -> Tally:
    return x._tally if isinstance(x, Scoped) else accounts_of(type(x)).mine.tally


def _own_nbytes(x: object) -> int:
    nbytes = getattr(x, "nbytes", 0)
    return nbytes if isinstance(nbytes, int) else 0


def _alive(members: dict[int, object]) -> list[object]:
    alive: list[object] = []
    for x in list(members.values()):
        if type(x) is ref:
            x = x()
            if x is None:
                continue
        alive.append(x)
    return alive


def _dispose_each(items: list[object], when: str) -> None:
    """Dispose all `items`, the last first; then raise what they raised as one group."""
    errors: list[BaseException] = []
    while items:
        try:
            while items:
                x = items.pop()
                if isinstance(x, Scoped):
                    x.dispose()
                    continue
                _owner_of_resource.pop(id(x), None)
                end = getattr(x, "dispose", None) or getattr(x, "close")  # noqa: B009
                end()
        except BaseException as error:  # an interrupt too must not leave the rest undisposed
            errors.append(error)
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} error{'s' * (len(errors) != 1)} {when}", errors)
