"""The tensor's inside: an array, a storage, a node, an owner; and its handle."""

from __future__ import annotations

from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeGuard
from weakref import ref

import numpy as np

from scopes import Disposable, TensorDisposedError, current_dispose_scope
from scopes.lowlevel import ending_by, note_created, note_ended, record_of, register
from tensor.core.handle import Handle
from tensor.core.plain import plain
from tensor.core.storage import Array, Hold, Seat, claim_for_tensor, hold_under, join, leave
from tensor.memory.accounting import charge, sizes
from tensor.memory.books import Size, owner_of
from tensor.memory.holders import kinds_that_hold
from tensor.memory.pool import hold_of
from tensor.tape.nodes import Leaf, Node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tensor.core.tensor import Tensor

_new = Disposable.__new__


class TensorCore(Disposable):
    """What every tensor is made of; `Tensor` adds the operations."""

    __slots__ = ("_array", "_ending", "_grad", "_hold", "_node", "_seat")

    # None once the tensor is empty.
    _array: Array | None
    # The place in its storage. None while no view, alias or export of this tensor was ever made.
    _seat: Seat | None
    # What counts a small buffer as live memory; also None once the tensor is empty.
    _hold: Hold
    # None: no gradient wanted; a Leaf: gradients gather here; another node: computed from such.
    _node: Node | None
    # Set for leaves, and for tensors that retain theirs: the gradient.
    _grad: TensorCore | None
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
        Disposable.dispose(self)

    def _release(self) -> None:
        self._array = self._hold = None
        if self._seat is not None or self._node is not None:
            self._forget_memory()

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
        x._take_over(handle)
        return x

    def _take_over(self, handle: Handle) -> None:
        array, seat = handle._take()
        self._array = array
        self._hold, handle._hold = handle._hold, None
        self._node = None
        self._seat = None
        handle._hand_over_count(self)
        if seat is not None:
            join(seat.storage, self, seat.family)
        note_created(self, current_dispose_scope())

    def _move_handle(self, ending: str) -> Handle:
        array = self._array
        if array is None:
            self._raise_disposed()
        handle = Handle(array)
        seat = self._seat
        handle._hold = hold_under(self)
        self._array = self._hold = None
        self._ending = ending
        note_ended(self, ending)
        self._forget_memory()
        if seat is not None:
            join(seat.storage, handle, seat.family)
        self._hand_over_count(handle)
        return handle

    def _lie_over(self, array: Array) -> None:
        """Exchange the memory for that of the new `array`; without history."""
        self._forget_memory()
        self._array = array
        self._hold = hold_for(array)

    def _forget_memory(self) -> None:
        leave(self)
        if self._node is not None:
            self._forget_history()

    def _forget_history(self) -> None:
        """Record nothing by this tensor any more; its gradient goes."""
        self._node = None
        grad = getattr(self, "_grad", None)
        if grad is not None:
            self._grad = None
            grad.dispose()

    def _become_leaf(self) -> None:
        """Let gradients gather here from now on."""
        array = self._array
        if array is None:
            self._raise_disposed()
        self._grad = None
        self._node = Leaf(array.shape, array.dtype, ref(self))

    def _footprint(self) -> tuple[int, int]:
        array = self._array
        if array is None:
            return id(self), 0
        owner = owner_of(array)
        return id(owner), owner.nbytes

    def _keeps(self, seen: set[int]) -> Iterable[tuple[int, int]]:
        yield self._footprint()
        # The graph too, whose values no tensor needs to hold; but not those of its leaves that are alive.
        nodes = []
        stack = [self._node]
        while stack:
            node = stack.pop()
            if node is None or id(node) in seen:
                continue
            seen.add(id(node))
            nodes.append(node)
            stack += node.next
            leaf = node.tensor() if isinstance(node, Leaf) else None
            if leaf is not None:
                seen.add(leaf._footprint()[0])
        for node in nodes:
            for array in node.arrays():
                owner = owner_of(array)
                yield id(owner), owner.nbytes

    def _raise_if_disposed(self) -> None:
        if self._array is None:
            self._raise_disposed()

    def _raise_disposed(self) -> NoReturn:
        scope = self._ended_scope
        ending = getattr(self, "_ending", None)
        if ending is not None:
            why = ending
            cure = "Use the object that took the handle, or pass x.clone() to it"
        elif scope is not None:
            why = ending_by(scope)
            cure = (
                "Move it out before the scope ends: scope.move_to_outer(x), scope.detach(x), or return "
                "it from a "
                "function decorated with @disposing"
            )
        else:
            why = ending_by(None)
            cure = "Dispose it after its last use, or keep x.clone() or x.alias()"
        record = record_of(self)
        where = "" if record is None else f". It was created by {record.site}"
        if record is not None and record.ended_at is not None:
            where += f", and ended by {record.ended_at}"
        raise TensorDisposedError(f"this tensor is empty: {why}{where}. {cure}")


kinds_that_hold.append(TensorCore)


def is_tensor(x: object) -> TypeGuard[Tensor]:
    """Tell whether `x` is a tensor: every core made is one."""
    return isinstance(x, TensorCore)


def wrap(array: Array, node: Node | None = None) -> Tensor:
    """Return a new tensor over the new `array`, registered with the current scope and counted."""
    hold: Hold = hold_for(array)
    if node is not None and node.plan.saves_out:
        hold = hold_with(node, hold)
    return wrap_with(array, node, hold)


def hold_with(node: Node, hold: Hold) -> Hold:
    """Return what an op's output and its `node`, which saves it, hold in common."""
    if hold is None:
        return None
    shared = (hold,) if hold.__class__ is Size else hold
    node.holds = (*node.holds, shared)
    return shared


def hold_for(array: Array) -> Hold:
    """Count the buffer of a new array."""
    if array.base is not None:
        return hold_of(array)
    n = array.nbytes
    try:
        hold = sizes[n]
    except KeyError:
        return hold_of(array)
    left = hold.left = hold.left - 1
    if left < 0 and (getrefcount(hold) > hold.high or not left & 255):
        charge(n)
    return hold


def wrap_with(array: Array, node: Node | None, hold: Hold) -> Tensor:
    """Return a new tensor over `array`, whose buffer `hold` counts already."""
    x = _new(plain.kind)
    x._array = array
    x._hold = hold
    x._seat = None
    x._node = node
    x._grad = None  # not to find one costs a scope 140 ns at its end
    register(x)
    return x


def wrap_unowned(array: Array, *, hold: Hold = None) -> Tensor:
    """Return a new tensor over the new `array` that no scope owns: a gradient, an optimizer's state."""
    x = _new(plain.kind)
    x._array = array
    x._hold = hold_for(array) if hold is None else hold
    x._seat = None
    x._node = None
    register(x, is_owned=False)
    return x


def wrap_claim(x: TensorCore) -> Tensor:
    """Return a new tensor with the values of `x`, without history: their memory is shared until a write."""
    array, hold = claim_for_tensor(x)
    return wrap_with(array, None, hold)


def wrap_claim_unowned(x: TensorCore) -> Tensor:
    """Return what ``wrap_claim`` does, owned by no scope."""
    array, hold = claim_for_tensor(x)
    return wrap_unowned(array, hold=hold)


def wrap_leaf(array: Array, hold: Hold) -> Tensor:
    """Return what ``wrap_with`` does, a leaf where gradients gather."""
    x = wrap_with(array, None, hold)
    x._become_leaf()
    return x


def gradient_of(x: TensorCore) -> Tensor | None:
    """Return the gradient that `x` has gathered; None where there is none, or an empty one."""
    grad = getattr(x, "_grad", None)
    return grad if grad is not None and grad._array is not None else None


def as_array(result: Any) -> Array:
    """Return a kernel's result as an array: NumPy gives scalars where the result has no dimensions."""
    return result if type(result) is np.ndarray else np.asarray(result)
