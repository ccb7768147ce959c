"""The class of the tensors that operations make, and where they are counted."""

from __future__ import annotations

import threading
from _thread import get_ident
from typing import TYPE_CHECKING

from scopes.lowlevel import Account, Accounts

if TYPE_CHECKING:
    from tensor.core.donation import Donated
    from tensor.core.tensor import Tensor

# No thread has this ident.
_NOBODY = (0, Account())


class Plain:
    """The class of the tensors that operations make, set once by `tensor.core.tensor`, and its accounts.

    Beside it the class of donated ones, set by `tensor.core.donation`.
    """

    __slots__ = ("accounts", "donated", "kind", "recent")

    kind: type[Tensor]
    donated: type[Donated]
    accounts: Accounts

    def __init__(self) -> None:
        # The thread that asked last and its account: a look here costs 40 ns less than a thread-local.
        self.recent: tuple[int, Account] = _NOBODY

    def turn_to_this_thread(self) -> Account:
        """Return the calling thread's account, and remember it for the next question."""
        account = self.accounts.mine
        _farewell.here = _farewell.here or _Farewell()
        self.recent = (get_ident(), account)
        return account


class _Farewell:
    """Forgets the account of a thread that ends: the next thread may get its ident."""

    def __del__(self) -> None:
        plain.recent = _NOBODY


class _ThreadsFarewell(threading.local):
    here: _Farewell | None = None


plain = Plain()

_farewell = _ThreadsFarewell()
