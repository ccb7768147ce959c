"""What was created, disposed, attached and detached: exact figures for the process, a type, a thread.

Each thread counts in a tally of its own, one for each type. An object remembers the tally of the thread
that created it, and all that happens to it later is counted there, on whichever thread it happens.

``tally.disposed_in_scope += 1`` needs no lock: CPython hands the GIL over at calls and backward jumps only,
and there is none between its load and its store. So finalizers may count too, and take no lock.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Tally:
    """The counters of one type on one thread since the last reset.

    Each disposal counts once: as disposed when somebody asked for it, as finalized when the last reference
    went.
    """

    __slots__ = (
        "attached_to_scope",
        "created_in_scope",
        "created_outside_scope",
        "detached_from_scope",
        "disposed_in_scope",
        "disposed_outside_scope",
        "finalized_in_scope",
        "finalized_outside_scope",
        "kind",
        "thread",
    )

    def __init__(self, kind: type, thread: _Thread) -> None:
        self.kind = kind
        self.thread = thread
        self.created_outside_scope = 0
        self.disposed_outside_scope = 0
        self.created_in_scope = 0
        self.disposed_in_scope = 0
        self.attached_to_scope = 0
        self.detached_from_scope = 0
        self.finalized_in_scope = 0
        self.finalized_outside_scope = 0


class Account:
    """Where one thread finds its tally for one type; ``reset()`` puts a new tally in."""

    __slots__ = ("__weakref__", "tally")

    def __init__(self, tally: Tally) -> None:
        self.tally = tally


@dataclass(frozen=True, slots=True)
class DisposeStatistics:
    """The figures at one moment. Two subtract; ``str`` gives them in TorchSharp's order.

    Examples
    --------
    >>> from scopes import statistics
    >>> before = statistics.snapshot()
    >>> (statistics.snapshot() - before).live_count
    0
    """

    created_outside_scope_count: int = 0
    disposed_outside_scope_count: int = 0
    created_in_scope_count: int = 0
    disposed_in_scope_count: int = 0
    attached_to_scope_count: int = 0
    detached_from_scope_count: int = 0
    finalized_count: int = 0

    @property
    def live_count(self) -> int:
        """All that was created, less all that was disposed."""
        created = self.created_outside_scope_count + self.created_in_scope_count
        return created - self.disposed_outside_scope_count - self.disposed_in_scope_count

    def __add__(self, other: DisposeStatistics) -> DisposeStatistics:
        return DisposeStatistics(*(a + b for a, b in zip(self._figures(), other._figures(), strict=True)))

    def __sub__(self, other: DisposeStatistics) -> DisposeStatistics:
        return DisposeStatistics(*(a - b for a, b in zip(self._figures(), other._figures(), strict=True)))

    def __str__(self) -> str:
        return "; ".join(f"{name}: {getattr(self, name)}" for name in ("live_count", *_FIGURES))

    def _figures(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in _FIGURES)


_FIGURES = tuple(field.name for field in fields(DisposeStatistics))


def _no_view() -> None:
    return None


class _Thread:
    """Stands for a thread; unlike a thread's ident it is never used again."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        # Weak, since the view knows the thread. While somebody holds it, the thread's tallies are kept.
        self.view: Callable[[], StatisticsView | None] = _no_view


class _ThisThread(threading.local):
    def __init__(self) -> None:
        self.thread = _Thread()


_this_thread = _ThisThread()

# For an object whose count went on to another one: no ledger reads it.
nowhere = Tally(object, _Thread())


def _references(tallies: list[Tally], place: int) -> int:
    return sys.getrefcount(tallies[place])


# What an interpreter counts for a tally that only the ledger's list holds; versions differ.
_UNSHARED = _references([Tally(object, _Thread())], 0)


class _Ledger:
    """All tallies of the process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._accounts: list[weakref.ref[Account]] = []
        self._tallies: list[Tally] = []
        self._retired: dict[type, DisposeStatistics] = {}
        self._retire_at = 64

    def open(self, kind: type) -> Account:
        """Open the calling thread's account for `kind`."""
        tally = Tally(kind, _this_thread.thread)
        account = Account(tally)
        with self.lock:
            self._tallies.append(tally)
            self._accounts.append(weakref.ref(account))
            if len(self._tallies) > self._retire_at:
                self._retire()
                self._retire_at = 64 + 2 * len(self._tallies)
        return account

    def _retire(self) -> None:
        """Fold the tallies into which nobody can count any more: their threads and objects are gone."""
        kept: list[Tally] = []
        retired = dict(self._retired)
        tallies = self._tallies
        for place in range(len(tallies)):
            if _references(tallies, place) > _UNSHARED or tallies[place].thread.view() is not None:
                kept.append(tallies[place])
            else:
                kind = tallies[place].kind
                retired[kind] = retired.get(kind, DisposeStatistics()) + _sum(tallies[place : place + 1])
        self._tallies, self._retired = kept, retired
        self._accounts = [account for account in self._accounts if account() is not None]

    def reset(self) -> None:
        with self.lock:
            self._tallies = []
            self._retired = {}
            for reference in self._accounts:
                account = reference()
                if account is not None:
                    account.tally = Tally(account.tally.kind, account.tally.thread)
                    self._tallies.append(account.tally)

    def total(self, kind: type | None, thread: _Thread | None) -> DisposeStatistics:
        with self.lock:
            chosen = [
                tally
                for tally in self._tallies
                if (kind is None or issubclass(tally.kind, kind))
                and (thread is None or tally.thread is thread)
            ]
            total = _sum(chosen)
            if thread is None:
                for retired, figures in self._retired.items():
                    if kind is None or issubclass(retired, kind):
                        total += figures
            return total


def _sum(tallies: list[Tally]) -> DisposeStatistics:
    # What ends is read before what begins, so that other threads at work can't make live_count negative.
    finalized_outside = sum(tally.finalized_outside_scope for tally in tallies)
    finalized_in = sum(tally.finalized_in_scope for tally in tallies)
    disposed_outside = finalized_outside + sum(tally.disposed_outside_scope for tally in tallies)
    disposed_in = finalized_in + sum(tally.disposed_in_scope for tally in tallies)
    detached = sum(tally.detached_from_scope for tally in tallies)
    attached = sum(tally.attached_to_scope for tally in tallies)
    created_outside = sum(tally.created_outside_scope for tally in tallies)
    created_in = sum(tally.created_in_scope for tally in tallies)
    return DisposeStatistics(
        created_outside_scope_count=created_outside,
        disposed_outside_scope_count=disposed_outside,
        created_in_scope_count=created_in,
        disposed_in_scope_count=disposed_in,
        attached_to_scope_count=attached,
        detached_from_scope_count=detached,
        finalized_count=finalized_outside + finalized_in,
    )


_ledger = _Ledger()


def _renew_lock_after_fork() -> None:
    _ledger.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock_after_fork)


class Accounts(threading.local):
    """The accounts of one type: ``accounts.mine.tally`` is the calling thread's tally."""

    mine: Account

    def __init__(self, kind: type) -> None:
        self.mine = _ledger.open(kind)


_accounts: dict[type, Accounts] = {}


def accounts_of(kind: type) -> Accounts:
    """Return the accounts of `kind`, opened at the first call.

    Examples
    --------
    >>> from scopes.lowlevel import accounts_of
    >>> accounts_of(bytes).mine.tally.created_in_scope
    0
    """
    accounts = _accounts.get(kind)
    return accounts if accounts is not None else _accounts.setdefault(kind, Accounts(kind))


class StatisticsView:
    """Live figures of the process, of a type, or of a thread: each read counts anew."""

    __slots__ = ("__weakref__", "_kind", "_thread")

    def __init__(self, kind: type | None = None, thread: _Thread | None = None) -> None:
        self._kind = kind
        self._thread = thread

    def snapshot(self) -> DisposeStatistics:
        """Return the figures of this moment, frozen.

        Examples
        --------
        >>> from scopes import statistics
        >>> print(statistics.snapshot() - statistics.snapshot())  # doctest: +ELLIPSIS
        live_count: 0; created_outside_scope_count: 0; ...; finalized_count: 0
        """
        return _ledger.total(self._kind, self._thread)

    @property
    def live_count(self) -> int:
        """How many are alive: all created less all disposed."""
        return self.snapshot().live_count

    @property
    def created_outside_scope_count(self) -> int:
        """How many were created while no scope was current."""
        return self.snapshot().created_outside_scope_count

    @property
    def disposed_outside_scope_count(self) -> int:
        """How many were disposed while no scope owned them."""
        return self.snapshot().disposed_outside_scope_count

    @property
    def created_in_scope_count(self) -> int:
        """How many were created while a scope was current."""
        return self.snapshot().created_in_scope_count

    @property
    def disposed_in_scope_count(self) -> int:
        """How many were disposed while a scope owned them, by the scope or otherwise."""
        return self.snapshot().disposed_in_scope_count

    @property
    def attached_to_scope_count(self) -> int:
        """How often a scope took something over by ``attach``."""
        return self.snapshot().attached_to_scope_count

    @property
    def detached_from_scope_count(self) -> int:
        """How often something was left without an owner."""
        return self.snapshot().detached_from_scope_count

    @property
    def finalized_count(self) -> int:
        """How many of the disposed went because their last reference did."""
        return self.snapshot().finalized_count

    def __str__(self) -> str:
        return str(self.snapshot())

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in self._rows())
        return f"<table>{rows}</table>"

    def _rows(self) -> Iterator[tuple[str, int]]:
        snapshot = self.snapshot()
        for name in ("live_count", *_FIGURES):
            yield name, getattr(snapshot, name)


class Statistics(StatisticsView):
    """The figures of the whole process: what ``scopes.statistics`` is.

    Objects that the library makes (tensors above all) are counted when they are created and when they are
    disposed. A resource of the user's own that is attached by hand counts in ``attached_to_scope_count``
    and ``detached_from_scope_count`` alone, for nobody saw its creation.

    Examples
    --------
    >>> import tensor
    >>> from scopes import new_dispose_scope, statistics
    >>> before = statistics.snapshot()
    >>> with new_dispose_scope():
    ...     x = tensor.ones((2,))
    ...     (statistics.snapshot() - before).created_in_scope_count
    1
    >>> (statistics.snapshot() - before).disposed_in_scope_count
    1
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()

    def of(self, kind: type) -> StatisticsView:
        """Return the figures of the objects that were created as `kind` or as a subclass of it."""
        if not isinstance(kind, type):
            raise TypeError(f"statistics.of() takes a class, not a {type(kind).__name__}: write of(type(x))")
        return StatisticsView(kind=kind)

    @property
    def this_thread(self) -> StatisticsView:
        """The figures of the objects that the calling thread created, wherever they went since.

        Keep it to read a thread's figures after the thread has ended.
        """
        thread = _this_thread.thread
        view = thread.view()
        if view is None:
            view = StatisticsView(thread=thread)
            thread.view = weakref.ref(view)
        return view

    def reset(self) -> None:
        """Start again at zero; what was created before is counted no more, whatever happens to it."""
        _ledger.reset()


statistics = Statistics()
