"""What was created, disposed, attached and detached: exact figures for the process, a type, a thread.

Each thread counts in tallies of its own, two for each type: one for what scopes own, one for the rest. An
object holds the tally of where it is. So the references to a tally tell how many are alive there, and what
went with its last reference needs no finalizer to be counted: it is what was created and not disposed, and
is there no more.

``tally.created += 1`` needs no lock: CPython hands the GIL over at calls and backward jumps only, and there
is none between its load and its store. For the same reason no tally may be in a local variable across a
call, where another thread would count it as one more object.
"""

from __future__ import annotations

import os
import threading
import weakref
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NamedTuple

from scopes.core.figures import DisposeStatistics

if TYPE_CHECKING:
    from collections.abc import Callable


class Tally:
    """The counters of one type on one thread since the last reset, in scopes or outside.

    ``other`` is the tally of the other side, where an object goes when it finds or leaves an owner. Disposed
    counts what somebody asked for; what went with its last reference follows from the rest.
    """

    __slots__ = ("arrived", "attached", "created", "departed", "detached", "disposed", "other")

    other: Tally

    def __init__(self) -> None:
        self.created = 0
        self.disposed = 0
        self.arrived = 0
        self.departed = 0
        self.attached = 0
        self.detached = 0


class Account:
    """Where one thread finds its tallies for one type; ``reset()`` puts new ones in."""

    __slots__ = ("__weakref__", "inside", "outside")

    inside: Tally
    outside: Tally

    def __init__(self) -> None:
        self.open()

    def open(self) -> None:
        """Put new tallies in."""
        inside, outside = Tally(), Tally()
        inside.other, outside.other = outside, inside
        self.inside, self.outside = inside, outside


def _no_view() -> None:
    return None


class Thread:
    """Stands for a thread; unlike a thread's ident it is never used again."""

    __slots__ = ("view",)

    def __init__(self) -> None:
        # Weak, since the view knows the thread. While somebody holds it, the thread's tallies are kept.
        self.view: Callable[[], Any] = _no_view


class _ThisThread(threading.local):
    def __init__(self) -> None:
        self.thread = Thread()


this_thread = _ThisThread()

# For an object that is empty, or whose count went on to another one: nobody reads it.
nowhere = Tally()
nowhere.other = nowhere


class _Counts(NamedTuple):
    """What one tally says."""

    created: int
    disposed: int
    live: int
    finalized: int
    attached: int
    detached: int

    @classmethod
    def of(cls, tally: Tally, *, is_in_account: bool) -> _Counts:
        # What is compared is read in one go: the only call is the last, and nobody counts in between.
        been, gone, references = (
            tally.created + tally.arrived - tally.departed,
            tally.disposed,
            getrefcount(tally),
        )
        live = references - _UNUSED - is_in_account
        return cls(tally.created, gone, live, been - gone - live, tally.attached, tally.detached)


class _Entry:
    """The tallies of one type on one thread, as the ledger keeps them."""

    __slots__ = ("account", "inside", "kind", "outside", "thread")

    def __init__(self, kind: type, thread: Thread, account: Account) -> None:
        self.kind = kind
        self.thread = thread
        self.account = weakref.ref(account)
        self.inside = account.inside
        self.outside = account.outside

    def counts(self) -> tuple[_Counts, _Counts]:
        """Return what the tallies inside and outside say."""
        account = self.account()  # held, so that it can't end in between
        held = account is not None
        return _Counts.of(self.inside, is_in_account=held), _Counts.of(self.outside, is_in_account=held)

    def figures(self) -> DisposeStatistics:
        inside, outside = self.counts()
        return DisposeStatistics(
            created_outside_scope_count=outside.created,
            disposed_outside_scope_count=outside.disposed + outside.finalized,
            created_in_scope_count=inside.created,
            disposed_in_scope_count=inside.disposed + inside.finalized,
            attached_to_scope_count=inside.attached + outside.attached,
            detached_from_scope_count=inside.detached + outside.detached,
            finalized_count=inside.finalized + outside.finalized,
        )

    def is_closed(self) -> bool:
        """Tell whether nobody can count here any more: the thread and all its objects are gone."""
        if self.account() is not None or self.thread.view() is not None:
            return False
        inside, outside = self.counts()
        return inside.live == outside.live == 0


class _Ledger:
    """All tallies of the process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._entries: list[_Entry] = []
        self._retired: dict[type, DisposeStatistics] = {}
        self._retire_at = 64

    def open(self, kind: type) -> Account:
        """Open the calling thread's account for `kind`."""
        account = Account()
        entry = _Entry(kind, this_thread.thread, account)
        with self.lock:
            self._entries.append(entry)
            if len(self._entries) > self._retire_at:
                self._retire()
                self._retire_at = 64 + 2 * len(self._entries)
        return account

    def _retire(self) -> None:
        """Fold the entries that are closed."""
        kept: list[_Entry] = []
        retired = dict(self._retired)
        for entry in self._entries:
            if entry.is_closed():
                retired[entry.kind] = retired.get(entry.kind, DisposeStatistics()) + entry.figures()
                entry.inside.other = entry.outside.other = (
                    nowhere  # two that refer to each other would be garbage
                )
            else:
                kept.append(entry)
        self._entries, self._retired = kept, retired

    def reset(self) -> None:
        with self.lock:
            entries, self._entries, self._retired = self._entries, [], {}
            for entry in entries:
                account = entry.account()
                if account is not None:
                    account.open()
                    self._entries.append(_Entry(entry.kind, entry.thread, account))

    def total(self, kind: type | None, thread: Thread | None) -> DisposeStatistics:
        with self.lock:
            total = DisposeStatistics()
            for entry in self._entries:
                if (kind is None or issubclass(entry.kind, kind)) and (
                    thread is None or entry.thread is thread
                ):
                    total += entry.figures()
            if thread is None:
                for retired, figures in self._retired.items():
                    if kind is None or issubclass(retired, kind):
                        total += figures
            return total


def _calibrate() -> int:
    """Return the references that a tally has when no object and no account holds it."""
    account = Account()
    entry = _Entry(object, Thread(), account)
    return _Counts.of(entry.inside, is_in_account=True).live


# What an interpreter counts of its own; versions differ.
_UNUSED = 0
_UNUSED = _calibrate()

ledger = _Ledger()


def _renew_lock_after_fork() -> None:
    ledger.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock_after_fork)


class Accounts(threading.local):
    """The accounts of one type: ``accounts.mine`` is the calling thread's."""

    mine: Account

    def __init__(self, kind: type) -> None:
        self.mine = ledger.open(kind)


_accounts: dict[type, Accounts] = {}


def accounts_of(kind: type) -> Accounts:
    """Return the accounts of `kind`, opened at the first call.

    Examples
    --------
    >>> from scopes.lowlevel import accounts_of
    >>> accounts_of(bytes).mine.inside.created
    0
    """
    accounts = _accounts.get(kind)
    return accounts if accounts is not None else _accounts.setdefault(kind, Accounts(kind))


def count_as(kind: type, other: type) -> None:
    """Count objects of `kind` as those of `other`.

    Examples
    --------
    >>> from scopes.lowlevel import accounts_of, count_as
    >>> class Sheet: ...
    >>> class LoggedSheet(Sheet): ...
    >>> count_as(LoggedSheet, Sheet)
    >>> accounts_of(LoggedSheet) is accounts_of(Sheet)
    True
    """
    _accounts[kind] = accounts_of(other)
