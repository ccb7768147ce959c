"""The scope: it owns what is created while it is current, and disposes what is left at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar, overload

from scopes._containers import find
from scopes._errors import ScopeDisposedError
from scopes._tracebacks import clear_library_frames
from scopes.core import ownership
from scopes.core.current import current, current_dispose_scope
from scopes.core.entries import FIRST, FIRST_PLACES, NO_MEMBERS, NO_PLACES, Entries, there
from scopes.core.ownership import (
    account_of,
    count_attached,
    count_detached,
    dispose_each,
    end_late,
    give,
    may_be_attached,
    may_be_owned,
    members_of,
    nbytes_of,
    owner_of,
    resource_of,
    take,
)
from scopes.core.scoped import Scoped
from scopes.tracking.leaks import LeakReport, survivors
from scopes.tracking.tracking import current as tracking

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import TypeVarTuple

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")

_current = current.get
_make_current = current.set


class DisposeScope(Entries):
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

    __slots__ = ("__weakref__", "_outer", "name")

    def __init__(self, name: str | None = None) -> None:
        self.name = name
        outer = _current()
        if outer is not None and outer._members is None:
            outer = current_dispose_scope()
        self._outer = outer
        self._members = NO_MEMBERS
        self._young = [*FIRST_PLACES]  # 30 ns sooner than [None] * FIRST
        self._left = FIRST
        _make_current(self)
        if tracking.tracker is not None:
            tracking.tracker.opened(self)

    def __enter__(self) -> Self:
        if self._members is None:
            self._raise_if_ended("entered")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            # Without a call from here to the fourth line. The lock would cost a fifth of an empty scope.
            members, young, left = self._members, self._young, self._left
            self._members = None
            self._young = NO_PLACES
            self._left = 0
            if members is not None:
                outer = self._outer
                if outer is not None and outer._members is None:
                    # Even if unused below: it lets go of scopes that ended, else misnested ones pile up.
                    outer = self.outer_scope
                if _current() is self:
                    _make_current(outer)
                try:
                    if left != FIRST or members is not NO_MEMBERS:
                        dispose_each(there(members, young, left), self)
                finally:
                    if tracking.tracker is not None:
                        tracking.tracker.closed(self)
        except BaseException as failure:
            clear_library_frames(failure)  # and those of `error`, which is its context
            raise
        if error is not None:
            clear_library_frames(error)

    def dispose(self) -> None:
        """End the scope and dispose all that it owns, newest first; a second call does nothing.

        Raises
        ------
        ExceptionGroup
            Of what the members' own ``dispose()`` raised, after all of them were disposed.
        """
        self.__exit__(None, None, None)  # this way round: a call less in each `with`

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
        self._raise_if_ended("asked for its members")
        return tuple(members_of(self))

    @property
    def disposables_count(self) -> int:
        """How many the scope owns."""
        return len(self.disposables_view)

    @property
    def nbytes(self) -> int:
        """The memory of what the scope owns, in bytes; what several members share counts once."""
        self._raise_if_ended("asked for its size")
        return nbytes_of(self)

    def survivors(self) -> LeakReport:
        """Return what the scope owns, by the line that created it; see ``scopes.leaks``.

        Tracking must be on.

        Examples
        --------
        >>> import scopes, tensor
        >>> with scopes.track(), scopes.new_dispose_scope() as scope:
        ...     kept = [tensor.ones((10,)) for _ in range(3)]
        ...     [(row.count, row.nbytes) for row in scope.survivors().rows]
        [(3, 120)]
        """
        return survivors(self.disposables_view)

    def __len__(self) -> int:
        return self.disposables_count

    def __bool__(self) -> bool:
        return True  # an empty scope is still a scope: `scope or other` must not lose it

    def contains(self, x: object) -> bool:
        """Tell whether the scope owns `x`. A scope that has ended owns nothing."""
        return owner_of(x) is self

    def __contains__(self, x: object) -> bool:
        return self.contains(x)

    @overload
    def attach(self, x: T, /) -> T: ...
    @overload
    def attach(self, *xs: *Ts) -> tuple[*Ts]: ...
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
        self._raise_if_ended("attached to")
        found = find(xs, may_be_attached, inside=False)
        for x in found:
            if isinstance(x, Scoped):
                x._raise_if_disposed()
        accounts = [account_of(x) for x in found]
        with ownership.lock:
            self._raise_if_ended("attached to")
            given = []
            for x, account in zip(found, accounts, strict=True):
                if owner_of(x) is not self:
                    given.append(give(x, self))
                    count_attached(x, account)
        end_late(given, self)
        return xs[0] if len(xs) == 1 else xs

    @overload
    def detach(self, x: T, /) -> T: ...
    @overload
    def detach(self, *xs: *Ts) -> tuple[*Ts]: ...
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
        return self._move(xs, None)

    @overload
    def move_to_outer(self, x: T, /) -> T: ...
    @overload
    def move_to_outer(self, *xs: *Ts) -> tuple[*Ts]: ...
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
        return self._move(xs, None, outward=True)

    @overload
    def move_to_other(self, other: DisposeScope | None, x: T, /) -> T: ...
    @overload
    def move_to_other(self, other: DisposeScope | None, *xs: *Ts) -> tuple[*Ts]: ...
    def move_to_other(self, other: DisposeScope | None, *xs: object) -> object:
        """Hand what this scope owns among `xs` to `other`; None detaches it.

        Raises
        ------
        ScopeDisposedError
            If this scope or `other` has ended; all owners are as before.
        """
        if other is not None and not isinstance(other, DisposeScope):
            raise TypeError(
                f"move_to_other() takes the scope first, or None, not a {type(other).__name__}: write "
                "scope.move_to_other(other_scope, x), or x.move_to_other_dispose_scope(y) to go where y is"
            )
        return self._move(xs, other)

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
        self._raise_if_ended("told to dispose its members")
        kept = {id(x) for x in find(keep, may_be_owned, inside=True)}
        self._raise_if_ended("told to dispose its members")
        dispose_each([x for x in self._there() if id(resource_of(x)) not in kept], self)

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
        elif not may_be_attached(replacement):
            raise TypeError(
                f"a {type(replacement).__name__} can't replace a {type(original).__name__} in a scope: it "
                "has neither dispose() nor close(), so the scope could not end it. Pass a tensor or another "
                "disposable"
            )
        with ownership.lock:
            scope = owner_of(original)
            if scope is not None:
                take(original)
                given = [give(replacement, scope)]
        if scope is not None:
            end_late(given, scope)
        return replacement

    def __repr__(self) -> str:
        label = "DisposeScope" if self.name is None else f"DisposeScope {self.name!r}"
        if self._members is None:
            return f"<{label}: disposed>"
        count = len(members_of(self))
        return f"<{label}: open, {count} disposable{'s' * (count != 1)}, {nbytes_of(self):,} bytes>"

    def _raise_if_ended(self, what: str) -> None:
        if self._members is None:
            raise ScopeDisposedError(
                f"{self} can't be {what}: it has ended. Use a scope that is open "
                "(current_dispose_scope()), open one with new_dispose_scope(), or do this before the scope's "
                "`with` block ends"
            )

    def _move(self, xs: tuple[object, ...], target: DisposeScope | None, *, outward: bool = False) -> object:
        self._raise_if_ended("asked to give something away")
        if len(xs) == 1 and isinstance(xs[0], Scoped) and not hasattr(type(xs[0]), "__disposables__"):
            found: list[object] = [xs[0]]  # finding it costs 2 us, moving it 1 us
        else:
            found = find(xs, may_be_owned, inside=True)
        accounts = [account_of(x) for x in found]
        with ownership.lock:
            self._raise_if_ended("asked to give something away")
            if outward:
                target = self.outer_scope
            elif target is not None:
                target._raise_if_ended("moved to")
            given = []
            for x, account in zip(found, accounts, strict=True):
                if owner_of(x) is self:
                    if target is None:
                        take(x)
                        count_detached(x, account)
                    elif target is not self:
                        given.append(give(x, target))
        if target is not None:
            end_late(given, target)
        return xs[0] if len(xs) == 1 else xs


# A function of its own around it would cost a tenth of an empty scope.
new_dispose_scope = DisposeScope
