"""A model of memory for tests: buffers, the storages and graphs that claim them, the arrays that see them.

Each storage has bytes of its own, to which plain NumPy arrays write, and a buffer, of which the model knows
the size alone. A buffer is live while a storage or the graph claims it, pinned while nobody claims it and an
exported array lies over it. A write to a storage whose buffer others claim too moves it to a new buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from scopes import DisposeScope
from tensor import Tensor


@dataclass(eq=False)
class Buffer:
    """`lender` is None for memory of our own; else ``"blob"`` or ``"array"``, which is somebody else's."""

    nbytes: int
    lender: str | None = None
    # What the array is an exported one of, that a tensor was made over.
    under: Buffer | None = None


@dataclass(eq=False)
class Storage:
    """What the tensors in `members` share: `flat` is its bytes."""

    buffer: Buffer
    flat: np.ndarray
    is_readonly: bool = False
    members: list[Pair] = field(default_factory=list)


@dataclass(eq=False)
class Pair:
    """A tensor and its model, an array over the storage's bytes."""

    x: Tensor
    storage: Storage
    model: np.ndarray
    owner: DisposeScope | None

    @property
    def is_expanded(self) -> bool:
        return any(s == 0 and n > 1 for s, n in zip(self.model.strides, self.model.shape, strict=True))

    @property
    def is_small_view(self) -> bool:
        """Whether a copy of it copies at once."""
        return 2 * self.model.nbytes < self.storage.buffer.nbytes


@dataclass(eq=False)
class Export:
    """An array outside, which keeps its buffer whole whatever becomes of the tensors."""

    array: np.ndarray
    buffer: Buffer
    flat: np.ndarray
    model: np.ndarray


@dataclass(eq=False)
class Source:
    """Somebody else's memory under tensors; `releases` has an entry for each call of a blob's on_release."""

    memory: bytearray | np.ndarray
    buffer: Buffer
    flat: np.ndarray
    start: int = 0
    releases: list[int] = field(default_factory=list)


@dataclass(eq=False)
class Tape:
    """A graph that has saved one value, and the gradient that backward must make of it."""

    leaf: Pair
    loss: Pair
    saved: Buffer
    gradient: np.ndarray
    # The tensor whose value is saved, where it is that of an output: it holds the graph as well.
    out: Pair | None = None
    grad: Pair | None = None
    is_used: bool = False


class Model:
    """All buffers, and the expected figures."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[Pair] = []
        # Tensors that hold a graph, and gradients.
        self.hidden: list[Pair] = []
        self.exports: list[Export] = []
        self.sources: list[Source] = []
        self.tapes: list[Tape] = []
        self.scopes: list[DisposeScope] = []

    def add(self, x: Tensor, storage: Storage, model: np.ndarray, *, hidden: bool = False) -> Pair:
        """Note a new tensor on `storage`."""
        pair = Pair(x, storage, model, self.scopes[-1] if self.scopes else None)
        storage.members.append(pair)
        (self.hidden if hidden else self.pairs).append(pair)
        return pair

    def add_own(self, x: Tensor, values: np.ndarray, *, hidden: bool = False) -> Pair:
        """Note a new tensor with a buffer of its own."""
        model, flat = compact(values)
        return self.add(x, Storage(Buffer(model.nbytes), flat), model, hidden=hidden)

    def drop(self, pair: Pair) -> None:
        """Let go of a tensor."""
        pair.x = None
        pair.storage.members.remove(pair)
        (self.pairs if pair in self.pairs else self.hidden).remove(pair)
        for tape in self.tapes:
            if tape.leaf is pair and tape.grad is not None:
                self.drop(tape.grad)
                tape.grad = None

    def end(self, scope: DisposeScope) -> None:
        self.scopes.remove(scope)
        scope.dispose()
        for pair in [pair for pair in (*self.pairs, *self.hidden) if pair.owner is scope]:
            self.drop(pair)

    def claimed(self) -> list[Buffer]:
        """Return the buffers that storages and graphs claim, each as often as it is claimed."""
        storages = {pair.storage for pair in (*self.pairs, *self.hidden)}
        graphs = [
            tape
            for tape in self.tapes
            if not tape.is_used and (tape.loss in self.hidden or tape.out in self.hidden)
        ]
        return [storage.buffer for storage in storages] + [tape.saved for tape in graphs]

    def seen(self) -> set[Buffer]:
        """Return the buffers that exported arrays lie over."""
        found = set()
        over = [export.buffer for export in self.exports]
        over += [buffer.under for buffer in self.claimed() if buffer.under is not None]
        while over:
            buffer = over.pop()
            found.add(buffer)
            if buffer.under is not None:
                over.append(buffer.under)
        return found

    def is_shared(self, buffer: Buffer) -> bool:
        """Tell whether somebody else than one storage wants the values as they are."""
        return buffer.lender is None and self.claimed().count(buffer) > 1

    def is_shown(self, buffer: Buffer) -> bool:
        """Tell whether outsiders may write there unseen."""
        return buffer.lender is not None or buffer in self.seen()

    def separate(self, storage: Storage) -> None:
        """Move a storage to a buffer of its own."""
        if len(storage.members) == 1:
            (pair,) = storage.members
            pair.model, storage.flat = compact(pair.model)
        else:
            start, storage.flat = address(storage.flat), storage.flat.copy()
            for pair in storage.members:
                pair.model = over(storage.flat, pair.model, start)
        storage.buffer = Buffer(storage.flat.nbytes)
        storage.is_readonly = False

    def make_writable(self, pair: Pair) -> np.ndarray:
        if pair.storage.is_readonly or self.is_shared(pair.storage.buffer):
            self.separate(pair.storage)
        return pair.model

    def snapshot(self, pair: Pair) -> Buffer:
        """Return the buffer under the values that `pair` has now."""
        buffer = pair.storage.buffer
        return Buffer(pair.model.nbytes) if self.is_shown(buffer) else buffer

    def bytes_of(self) -> tuple[int, int, int]:
        """Return the bytes that are live, pinned and borrowed."""
        claimed, seen = set(self.claimed()), self.seen()
        live = sum(buffer.nbytes for buffer in claimed if buffer.lender is None)
        pinned = sum(buffer.nbytes for buffer in seen - claimed if buffer.lender is None)
        return live, pinned, sum(buffer.nbytes for buffer in self.lent())

    def lent(self) -> set[Buffer]:
        """Return what is borrowed: the memory of others while a tensor or an exported array lies over it."""
        return {buffer for buffer in (*self.claimed(), *self.seen()) if buffer.lender is not None}


def address(array: np.ndarray) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


def over(flat: np.ndarray, like: np.ndarray, start: int) -> np.ndarray:
    """Return the array over `flat` that `like` is over the bytes from the address `start` on."""
    return np.ndarray(like.shape, like.dtype, flat, address(like) - start, like.strides)


def compact(model: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a copy without gaps, in the same order of memory, and its bytes."""
    copied = model.copy(order="K")
    flat = copied.ravel(order="K").view(np.uint8)
    return np.ndarray(copied.shape, copied.dtype, flat, 0, copied.strides), flat


def is_held(source: bytearray) -> bool:
    """Tell whether somebody keeps the bytes from being resized."""
    try:
        source.append(0)
    except BufferError:
        return True
    source.pop()
    return False
