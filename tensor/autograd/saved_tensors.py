"""Hooks on saved tensors: what the graph keeps for backward goes through a user's functions.

The hooks are a recorder. After an op is recorded, `Hooks.record` passes each array that the node saves to
the pack hook, as a tensor, and replaces the node's saved values by `Packed`, which only has the results.
Backward restores the values by the unpack hook. After a backward that keeps the graph, the node gets its
`Packed` back, so that values are in memory only while backward uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes._shared.naming import set_module
from tensor._dtypes import SUPPORTED, Dtype
from tensor.autograd.nesting import map_nested
from tensor.core.tensor import TensorCore, snapshot_share, wrap_share
from tensor.memory.buffer import Share
from tensor.ops.indexing import Key
from tensor.tape.modes import Block, GradMode, Recorder, Recording, innermost_recorder, recomputing
from tensor.tape.recording import Deferred, Node

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.tape.recording import Modes

# The message of `disable_saved_tensors_hooks`, or None.
_refusal: ContextVar[str | None] = ContextVar("refusal", default=None)


class Hooks(Recorder):
    """A pair of hooks, for the nodes that are recorded in a block. `pack` is None to change nothing."""

    __slots__ = ("depth", "pack", "unpack")

    def __init__(self, pack: Callable[[Tensor], Any] | None, unpack: Callable[[Any], Tensor]) -> None:
        super().__init__()
        self.pack: Callable[[Tensor], Any] | None = pack
        self.unpack: Callable[[Any], Tensor] = unpack
        # Nodes of a checkpoint's second run have another depth. Hooks around backward do not apply to them.
        self.depth: int = recomputing.get()

    def record(self, node: Node) -> None:
        super().record(node)
        # In the first run of a checkpoint, the node has no saved values now.
        if self.pack is not None and type(node.saved) is tuple and active_hooks() is self:
            self._replace(node)

    def _replace(self, node: Node) -> None:
        saved, holds = node.saved, node.holds
        assert isinstance(saved, tuple)
        is_output_missing = node.plan.saves_out
        if not is_output_missing and not any(map(_is_saved_tensor, saved, holds)):
            return
        values: list[Any] = []
        # So that a budget does not evict the values while the pack hook runs.
        node.is_in_use = True
        for place, (value, share) in enumerate(zip(saved, holds, strict=True)):
            if _is_saved_tensor(value, share):
                values.append(self._packed_value(value, share, _history_of(node, place)))
            else:
                values.append(value)
        if is_output_missing:
            values[_place_of_output(node)] = None
        node.saved = Packed(self, values)
        node.holds = ()
        node.is_in_use = False

    def _packed_value(
        self, value: Any, share: Share | None, history: Node | None
    ) -> PackedTensor | PackedKey:
        if isinstance(value, Key):
            return PackedKey(self, value)
        assert share is not None, "a saved array has a share"
        return PackedTensor(self, share, history)


class PackedTensor:
    """What a pack hook returned for a saved tensor."""

    __slots__ = ("dtype", "handle", "hooks", "shape")

    def __init__(self, hooks: Hooks, share: Share, history: Node | None) -> None:
        self.hooks: Hooks = hooks
        self.shape: tuple[int, ...] = share.array.shape
        self.dtype: Dtype = share.array.dtype
        self.handle: Any = _call_pack(hooks, share, history)

    def unpacked(self) -> Share:
        """Return a share of the values that the unpack hook returns."""
        given: Any = self.hooks.unpack(self.handle)
        if not isinstance(given, TensorCore):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be a Tensor but got result of type "
                f"{type(given).__name__}"
            )
        array = given._live_array()
        if array.shape != self.shape:
            raise RuntimeError(
                f"the unpack hook returned a tensor of shape {array.shape}, but the saved tensor had "
                f"{self.shape}: return a tensor of the shape that the pack hook got"
            )
        if array.dtype == self.dtype:
            return snapshot_share(given)
        if not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise RuntimeError(
                f"the unpack hook returned a tensor of {array.dtype}, but the saved tensor had {self.dtype}: "
                "return a tensor of that dtype"
            )
        with GradMode(False):
            same: Any = given
            return snapshot_share(same.to(self.dtype))


class PackedKey:
    """An index whose arrays went through a pack hook."""

    __slots__ = ("parts",)

    def __init__(self, hooks: Hooks, key: Key) -> None:
        shares = iter(key.holds)
        self.parts: list[Any] = [
            PackedTensor(hooks, next(shares), None) if isinstance(part, np.ndarray) else part for part in key
        ]

    def unpacked(self) -> Key:
        """Return the index."""
        shares = {i: part.unpacked() for i, part in enumerate(self.parts) if isinstance(part, PackedTensor)}
        key = Key(shares[i].array if i in shares else part for i, part in enumerate(self.parts))
        key.holds = tuple(shares.values())
        return key


class Packed(Deferred):
    """The saved values of a node, if a pack hook got some of them."""

    __slots__ = ("hooks", "values")

    is_put_back = True

    def __init__(self, hooks: Hooks, values: list[Any]) -> None:
        self.hooks: Hooks = hooks
        # Each is a PackedTensor, a PackedKey, or a constant of the op. None: the output, until it is saved.
        self.values: list[Any] = values

    def restore(self, node: Node) -> None:
        """Call the unpack hook for each value."""
        values: list[Any] = []
        holds: list[Share | None] = []
        for value in self.values:
            share = value.unpacked() if isinstance(value, PackedTensor) else None
            holds.append(share)
            if share is not None:
                values.append(share.array)
            else:
                values.append(value.unpacked() if isinstance(value, PackedKey) else value)
        if node.plan.saves_out and holds[_place_of_output(node)] is None:
            raise RuntimeError(f"{node.name()}: its output was not saved, because the pack hook failed")
        node.holds = tuple(holds)
        node.saved = tuple(values)

    def save_output(self, node: Node, share: Share | None) -> None:
        """Pass the output to the pack hook. In an in-place op it is None before the write."""
        if share is not None:
            self.values[_place_of_output(node)] = PackedTensor(self.hooks, share, node)

    def shares(self) -> list[Share]:
        """Return no shares: the results of the pack hook belong to the user."""
        return []


def active_hooks() -> Hooks | None:
    """Return the hooks that apply to tensors saved here."""
    recorder = innermost_recorder()
    while recorder is not None and not isinstance(recorder, Hooks):
        recorder = recorder.outer
    return recorder if recorder is not None and recorder.depth == recomputing.get() else None


def _is_saved_tensor(value: object, share: Share | None) -> bool:
    if isinstance(value, Key):
        return bool(value.holds)
    return share is not None and share.array.dtype in SUPPORTED


def _place_of_output(node: Node) -> int:
    return node.plan.saves.index(len(node.next))


def _history_of(node: Node, place: int) -> Node | None:
    """Return the history of a saved value."""
    source = node.source_of(place)
    return source if isinstance(source, Node) else None


def _call_pack(hooks: Hooks, share: Share, history: Node | None) -> Any:
    """Return the result of the pack hook. Tensors in it belong to the graph, not to a scope."""
    assert hooks.pack is not None
    x = wrap_share(share)
    x._node = history
    try:
        with GradMode(False):
            handle = hooks.pack(x)
        if not x.is_invalid and _is_changed(x, share):
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Its input is the saved value: "
                "write to x.clone(), and return that"
            )
    finally:
        # Without history, a pack hook that returns its argument makes no cycle of the node and its output.
        if not x.is_invalid:
            x._node = None
    map_nested(handle, _keep, "results of a pack hook")
    return handle


def _is_changed(x: TensorCore, share: Share) -> bool:
    # A write moves `x` to a buffer of its own, but ``x.numpy()`` does so too.
    if x._buffer is share.buffer:
        return False
    array = x._array
    return array is not None and not np.array_equal(array, share.array, equal_nan=True)


def _keep(item: Any) -> None:
    if isinstance(item, TensorCore) and not item.is_invalid:
        item.detach_from_dispose_scope()


@set_module("tensor.autograd.graph")
class saved_tensors_hooks(Block):  # noqa: N801  # PyTorch's name
    """Pass each tensor that an op saves for backward through a pair of hooks, in a block or a function.

    In the forward pass, the graph keeps ``pack_hook(x)`` instead of the saved tensor `x`. Backward calls
    ``unpack_hook`` with this object each time it needs the tensor. If the object does not refer to `x`, the
    memory of `x` is freed as soon as nothing else uses it.

    `x` is a new tensor that shares its memory with the saved one. While ``pack_hook`` runs, it has the
    history of the saved tensor (``x.requires_grad``, ``x.is_leaf``), and nothing is recorded. Later writes to
    the user's tensor do not change `x`. Tensors that ``pack_hook`` returns, also in lists, tuples and dicts,
    belong to the graph. The current scope owns other tensors that it creates.

    Of nested blocks, only the innermost applies. The hooks get inputs and outputs of ops, index and mask
    arrays, and the tensors of ``ctx.save_for_backward``. They do not get what a ``checkpoint`` computes
    again, only its arguments.

    Parameters
    ----------
    pack_hook
        A function of a tensor that returns any object. It must not write to its argument.
    unpack_hook
        A function of such an object that returns a tensor with the shape of the saved one. Another dtype is
        converted to that of the saved tensor.

    Raises
    ------
    RuntimeError
        If ``disable_saved_tensors_hooks`` is active; in the forward pass, if ``pack_hook`` writes to its
        argument; in backward, if ``unpack_hook`` returns a tensor of another shape.
    TypeError
        In backward, if ``unpack_hook`` returns anything but a tensor.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
    >>> with autograd.graph.saved_tensors_hooks(lambda x: x.half(), lambda x: x.float()):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """

    __slots__ = ("_pack", "_unpack")

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: {name} must be a function, not {type(hook).__name__}")
        self._pack: Callable[[Tensor], Any] | None = pack_hook
        self._unpack: Callable[[Any], Tensor] = unpack_hook

    def _inside(self) -> Modes:
        refusal = _refusal.get()
        if refusal is not None:
            raise RuntimeError(refusal)
        return Recording(Hooks(self._pack, self._unpack))._inside()


@set_module("tensor.autograd.graph")
class save_on_cpu(saved_tensors_hooks):  # noqa: N801  # PyTorch's name
    """Save tensors on the CPU, in a block or a function. They are there already, so nothing is copied.

    As PyTorch without another device does, the graph shares the memory of saved tensors. Hooks of an outer
    block do not apply inside. To write saved tensors to a file, use ``memory.budget``, or
    ``saved_tensors_hooks``.

    Parameters
    ----------
    pin_memory, device_type
        Accepted for PyTorch's programs. Without a device, memory need not be pinned.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.ones((2,), requires_grad=True)
    >>> with autograd.graph.save_on_cpu(pin_memory=True):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.tolist()
    [2.0, 2.0]
    """

    __slots__ = ()

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        del pin_memory, device_type
        self._pack = None
        self._unpack = _unchanged


def _unchanged(x: Any) -> Any:
    return x


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Raise a RuntimeError with `error_message` if the block uses ``saved_tensors_hooks``.

    Raises
    ------
    RuntimeError
        If such hooks are active already.

    Examples
    --------
    >>> from tensor import autograd
    >>> with autograd.graph.disable_saved_tensors_hooks("this model has its own hooks"):
    ...     with autograd.graph.save_on_cpu():
    ...         pass
    Traceback (most recent call last):
    ...
    RuntimeError: this model has its own hooks
    """
    if active_hooks() is not None:
        raise RuntimeError(error_message)
    token = _refusal.set(error_message)
    try:
        yield
    finally:
        _refusal.reset(token)
