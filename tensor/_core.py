"""The tensor's inside: an array, a storage, a node, an owner; and its handle."""

from __future__ import annotations

import threading
from _thread import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import proxy

import numpy as np

from scopes.lowlevel import Account, Accounts, Scoped, Tally, current, nowhere, register
from tensor._errors import TensorDisposedError
from tensor._graph import Leaf, Node
from tensor._storage import Array, Storage, family_of, join, owner_of

if TYPE_CHECKING:
    from scopes import DisposeScope
    from tensor._tensor import Tensor

_new = object.__new__
_current_scope = current.get


# No thread has this ident.
_NOBODY = (0, Account(nowhere))


class Plain:
    """The class of the tensors that operations make, set once by `tensor._tensor`, and its accounts."""

    __slots__ = ("accounts", "kind", "recent")

    kind: type[Tensor]
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


class TensorCore(Scoped):
    """What every tensor is made of; `Tensor` adds the operations."""

    __slots__ = ("_array", "_ending", "_node", "_storage")

    # None once the tensor is empty.
    _array: Array | None
    # None while no view, alias or export of this tensor was ever made.
    _storage: Storage | None
    # None: no gradient wanted; a Leaf: gradients gather here; another node: computed from such.
    _node: Node | None
    # Set when the handle moves away: where to.
    _ending: str

    def dispose(self) -> None:
        """Give the tensor's claim on its memory back, at once; a second call does nothing.

        Views, aliases, clones and exported arrays stay whole. The tensor's gradient goes with it; a graph
        that needs its values does not.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,))
        >>> y = x.alias()
        >>> x.dispose()
        >>> y.tolist()
        [1.0, 1.0]
        """
        self._end_with(None)

    def _end_with(self, scope: DisposeScope | None) -> None:
        if scope is not None and self._scope is not scope:
            return
        key = id(self)
        array = self._array
        self._array = None
        if array is None:
            return
        if self._storage is not None or self._node is not None:
            self._forget_memory()
        # From here on without a call, but for the last: on another thread the tensor may be moved.
        owner = self._scope
        if owner is None:
            self._tally.disposed_outside_scope += 1
            return
        self._tally.disposed_in_scope += 1
        if owner._members is not None:
            self._scope = None
            owner._members.pop(key, None)

    def __del__(self) -> None:
        # Any thread, any moment, interpreter shutdown included: no lock, nothing that raises. It takes 180 ns
        # of the 1,150 of a small op.
        try:
            scope = self._scope
            if scope is not None:
                members = scope._members
                if members is not None:
                    del members[id(self)]
                elif self._array is None:
                    return  # disposed by its scope's end
                self._tally.finalized_in_scope += 1
            elif self._array is not None:
                self._tally.finalized_outside_scope += 1
            if self._storage is not None:
                self._storage.members.pop(id(self), None)
        except (AttributeError, KeyError):
            return  # interrupted before it was registered

    def __enter__(self) -> Self:
        self._raise_if_disposed()
        return self

    def __exit__(self, *error: object) -> None:
        self.dispose()

    @property
    def is_invalid(self) -> bool:
        """Whether the tensor is empty: disposed, or its handle moved elsewhere."""
        return self._array is None

    def move_handle(self) -> Handle:
        """Return the tensor's claim on its memory as a `Handle`, and leave the tensor empty.

        No counter moves. The emptied tensor keeps its place in its scope until something takes it
        (``DisposeScope.replace_with``).

        Examples
        --------
        >>> import tensor
        >>> x = tensor.ones((2,))
        >>> y = tensor.Tensor.from_handle(x.move_handle())
        >>> x.is_invalid, y.tolist()
        (True, [1.0, 1.0])
        """
        return self._move_handle("its handle was moved by move_handle()")

    @classmethod
    def from_handle(cls, handle: Handle) -> Self:
        """Return a tensor that takes over `handle`, and leave the handle empty. No scope owns it.

        No counter moves: it goes on as the tensor whose handle it was.

        Examples
        --------
        >>> import tensor
        >>> tensor.Tensor.from_handle(tensor.ones((1,)).move_handle()).item()
        1.0
        """
        x = _new(cls)
        x._array = None
        x._scope = None
        x._node = None
        x._take_over(handle)
        return x

    def _take_over(self, handle: Handle) -> None:
        family = family_of(handle)
        array, storage = handle._take()
        self._tally = handle._tally
        self._array = array
        self._storage = None
        if storage is not None:
            storage.members.pop(id(handle), None)
            join(storage, self, family)

    def _move_handle(self, ending: str) -> Handle:
        array = self._array
        if array is None:
            self._raise_disposed()
        handle = Handle(array, self._storage, self._tally)
        storage, family = self._storage, family_of(self)
        self._array = None
        self._ending = ending
        self._tally = nowhere  # the handle goes on counting
        self._forget_memory()
        if storage is not None:
            join(storage, handle, family)
        return handle

    def _forget_memory(self) -> None:
        storage = self._storage
        if storage is not None:
            self._storage = None
            storage.members.pop(id(self), None)
        node = self._node
        if node is not None:
            self._node = None
            if type(node) is Leaf:
                node.close()

    def _clear(self) -> bool:
        empty = self._array is None
        self._array = None
        if not empty:
            self._forget_memory()
        return not empty

    def _footprint(self) -> tuple[int, int]:
        array = self._array
        if array is None:
            return id(self), 0
        owner = owner_of(array)
        return id(owner), owner.nbytes

    def _raise_if_disposed(self) -> None:
        if self._array is None:
            self._raise_disposed()

    def _raise_disposed(self) -> NoReturn:
        scope = self._scope
        ending = getattr(self, "_ending", None)
        if ending is not None:
            why = ending
            cure = "Use the object that took the handle, or pass x.clone() to it"
        elif scope is not None and scope._members is None:
            name = "" if scope.name is None else f" {scope.name!r}"
            why = f"its dispose scope{name} ended"
            cure = (
                "Move it out before the scope ends: scope.move_to_outer(x), scope.detach(x), or return "
                "it from a "
                "function decorated with @disposing"
            )
        else:
            why = "it was disposed by dispose()"
            cure = "Dispose it after its last use, or keep x.clone() or x.alias()"
        raise TensorDisposedError(f"this tensor is empty: {why}. {cure}")


class Handle:
    """A tensor's claim on its storage, between two tensors. Dropped unused, it gives the memory back.

    Examples
    --------
    >>> import tensor
    >>> handle = tensor.ones((2,)).move_handle()
    >>> handle.is_invalid
    False
    >>> handle.dispose()
    >>> handle.is_invalid
    True
    """

    __slots__ = ("__weakref__", "_array", "_storage", "_tally")

    def __init__(self, array: Array, storage: Storage | None, tally: Tally) -> None:
        self._array: Array | None = array
        self._storage = storage
        self._tally = tally

    @property
    def is_invalid(self) -> bool:
        """Whether the handle was disposed or taken by a tensor."""
        return self._array is None

    def dispose(self) -> None:
        """Give the memory back; counts as the disposal of the tensor whose handle this was."""
        array = self._array
        self._array = None
        if array is None:
            return
        storage = self._storage
        if storage is not None:
            self._storage = None
            storage.members.pop(id(self), None)
        self._tally.disposed_outside_scope += 1

    def __del__(self) -> None:
        array = self._array
        if array is not None:
            self._array = None
            if self._storage is not None:
                self._storage.members.pop(id(self), None)
            self._tally.finalized_outside_scope += 1

    def _take(self) -> tuple[Array, Storage | None]:
        array = self._array
        if array is None:
            raise TensorDisposedError(
                "this handle is empty: it was disposed, or a tensor took it before. Take a handle once, with "
                "x.move_handle()"
            )
        self._array = None
        return array, self._storage


def wrap(array: Array, node: Node | None = None) -> Tensor:
    """Return a new tensor over `array`, registered with the current scope and counted."""
    # The same lines stand in _dispatch.binary and _dispatch.unary, where the call would cost 60 ns of 1,000.
    x = _new(plain.kind)
    x._array = array
    x._storage = None
    x._node = node
    ident, account = plain.recent
    if ident != get_ident():
        account = plain.turn_to_this_thread()
    tally = x._tally = account.tally
    key, weak = id(x), proxy(x)
    scope = x._scope = _current_scope()
    if scope is None:
        tally.created_outside_scope += 1
        return x
    # No call between these two: the scope can't end between them.
    members = scope._members
    if members is not None:
        members[key] = weak
        tally.created_in_scope += 1
    else:
        register(x)
    return x


def wrap_unowned(array: Array, node: Node | None = None) -> Tensor:
    """Return a new tensor that no scope owns, for what belongs to another object (gradients, state)."""
    x = _new(plain.kind)
    x._array = array
    x._storage = None
    x._node = node
    x._scope = None
    x._tally = plain.accounts.mine.tally
    x._tally.created_outside_scope += 1
    return x


def as_array(result: Any) -> Array:
    """Return a kernel's result as an array: NumPy gives scalars where the result has no dimensions."""
    return result if type(result) is np.ndarray else np.asarray(result)
