"""Budgets for saved tensors of PyTorch's graphs: the rest waits in pinned memory or in a file."""

from __future__ import annotations

import itertools
import weakref
from collections import defaultdict, deque
from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Self

from scopes._spill import SpillFile
from scopes.core.guard import Guard
from scopes.foreign.torch import heap
from scopes.foreign.torch.library import torch
from scopes.foreign.torch.owning import paused
from scopes.foreign.torch.transfers import Transfers, buffer_of, paged, pinned
from scopes.tracking.sizes import parse_size

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from scopes._spill import Spilled

_NoFunctions = torch._C.DisableTorchFunction
_use_count = torch._C._storage_Use_Count
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor
_PLAIN = (torch.Tensor, torch.nn.Parameter)
# Smaller ones are left alone: a scalar in the file takes a page.
_SMALL = 4096
# A trim of the heap takes a millisecond or so, and pages that are used again cost as much once more.
_LEAST_TO_TRIM = 16 * 2**20


@dataclass(frozen=True, slots=True)
class BudgetStatistics:
    """The figures of a ``scopes.torch.budget`` at one moment."""

    #: What graphs have saved and is in memory, in bytes, and the most that was. Parameters do not count.
    held_bytes: int
    peak_bytes: int
    #: What waits in pinned memory, and in the file.
    host_bytes: int
    file_bytes: int
    #: How often memory was copied out of the budget, and how often it came back.
    spill_count: int
    return_count: int
    #: How many of those were on their way before backward asked for them.
    ahead_count: int
    #: All that was ever written to the file, and read from it.
    spilled_bytes: int
    read_bytes: int


class _Block:
    """A storage that graphs have saved: in memory, on the host, in the file. It ends with its last graph."""

    __slots__ = (
        "__weakref__",
        "device",
        "done",
        "host",
        "is_ahead",
        "nbytes",
        "reference",
        "spilled",
        "storage",
        "uses",
    )

    def __init__(self, storage: Any, ended: deque[_Reference]) -> None:
        self.storage: Any = storage
        self.device: Any = storage.device
        self.nbytes: int = storage.nbytes()
        # In pinned memory, for a GPU's; and the event that ends the last copy between the two.
        self.host: Any = None
        self.done: Any = None
        self.is_ahead = False
        self.spilled: Spilled | None = None
        # The numbers of the saved tensors in it: backward needs the highest first.
        self.uses: list[int] = []
        self.reference = _Reference(self, ended.append)
        self.reference.device, self.reference.uses = self.device, self.uses
        self.reference.key = storage._cdata

    def next_use(self, number: int) -> int:
        """Return which use of it comes first in a backward pass that begins before `number`; -1 for none."""
        return max((use for use in self.uses if use < number), default=-1)

    @property
    def is_shared(self) -> bool:
        """Whether something else keeps the memory too."""
        return bool(_use_count(self.storage._cdata) > 1)


class _Reference(weakref.ref[_Block]):
    """Goes to a list when its block ends, by a call in C, which nothing interrupts."""

    __slots__ = ("device", "key", "uses")

    device: Any
    key: int
    uses: list[int]


class _Version:
    """Checks whether a saved tensor was changed in place, which PyTorch does not check with hooks."""

    __slots__ = ("alias", "expected", "kind", "shape")

    def __init__(self, x: Any) -> None:
        # It has the version counter of `x`, but not its graph.
        self.alias = x.detach()
        self.expected = x._version
        self.kind, self.shape = x.type(), x.shape

    def check(self) -> None:
        """Raise PyTorch's error if the tensor has changed."""
        if self.alias._version != self.expected:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace "
                f"operation: [{self.kind} {list(self.shape)}] is at version {self.alias._version}; expected "
                f"version {self.expected} instead. Change a copy of it: x = x + 1 instead of x += 1"
            )


class _Saved:
    """Represents a saved tensor in the graph: a block, and the position in it."""

    __slots__ = ("block", "dtype", "number", "offset", "shape", "strides", "version")

    def __init__(self, block: _Block, number: int, x: Any, version: _Version) -> None:
        self.block = block
        self.number = number
        self.version = version
        self.dtype, self.shape = x.dtype, x.shape
        self.strides, self.offset = x.stride(), x.storage_offset()

    def restored(self) -> Any:
        """Return the tensor."""
        empty = torch.empty(0, dtype=self.dtype, device=self.block.device)
        return empty.set_(self.block.storage, self.offset, self.shape, self.strides)


class budget:  # noqa: N801  # it is called like a function
    """Limit the memory that graphs save for backward in a block. The rest is moved elsewhere until backward.

    When the saved tensors of forward passes in the block take more than `size`, it copies those out that
    backward needs last: from a GPU to pinned memory of the host, from the CPU to a file. Backward brings them
    back; on a GPU it begins ahead of time. Gradients are the same to the bit. The budget copies no more than
    it has to. A tensor that the program keeps too stays and does not count: a copy of it would free nothing.
    Neither do parameters count, nor tensors below 4 KiB.

    The budget holds on the thread that entered the block. Backward may run after it.

    Parameters
    ----------
    size
        The most bytes for each device: an int, or text such as ``"512 MiB"``.
    spill
        A folder on a disk, for a file without a name. Tensors on the CPU need it. From a GPU, what `host`
        has no room for goes there.
    host
        The limit for pinned memory; None for no limit.

    Raises
    ------
    SpillError
        In forward, when the disk is full; in backward, when the file can't be read. Set the gradients to
        zero and repeat the step.

    Examples
    --------
    >>> import scopes.torch, tempfile, torch
    >>> x = torch.ones(100, 1000, requires_grad=True)
    >>> with scopes.torch.budget("1 MiB", spill=tempfile.gettempdir()) as held:
    ...     y = x
    ...     for _ in range(10):
    ...         y = y.sin()
    >>> figures = held.statistics()
    >>> figures.held_bytes <= 2**20, figures.spill_count
    (True, 7)
    >>> y.sum().backward()
    """

    def __init__(
        self,
        size: int | str,
        *,
        spill: str | os.PathLike[str] | None = None,
        host: int | str | None = None,
    ) -> None:
        self.limit = parse_size(size, "size")
        self.host_limit = None if host is None else parse_size(host, "host")
        if spill is None and not torch.cuda.is_available():
            raise ValueError(
                "a budget for tensors on the CPU needs a folder on a disk for what does not fit: write "
                f"scopes.torch.budget({size!r}, spill='/a/folder')"
            )
        if spill is None and host is not None:
            raise ValueError(
                "a limit for pinned memory needs a folder on a disk for what does not fit: write "
                f"scopes.torch.budget({size!r}, host={host!r}, spill='/a/folder')"
            )
        self._file = None if spill is None else SpillFile(spill)
        self._guard = Guard()
        self._numbers = itertools.count(1)
        # What is in memory and what is not, by device; what is in pinned memory. One call in C changes each
        # of these, so an interrupt finds them whole.
        self._inside: defaultdict[Any, dict[_Reference, int]] = defaultdict(dict)
        self._outside: defaultdict[Any, dict[_Reference, int]] = defaultdict(dict)
        self._on_host: dict[_Reference, int] = {}
        # By the storage in memory, and by the number of the saved tensor.
        self._by_storage: dict[int, _Reference] = {}
        self._by_number: dict[int, _Reference] = {}
        self._ended: deque[_Reference] = deque()
        self._transfers: dict[Any, Transfers] = {}
        self._empty: dict[Any, Any] = {}
        self._freed = 0
        self._peak = self._spills = self._returns = self._ahead = 0
        self._hooks: Any = None

    def __enter__(self) -> Self:
        if self._hooks is not None:
            raise RuntimeError("this budget is open already: write a new `with scopes.torch.budget(...):`")
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._hooks = hooks
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            hooks.__exit__(kind, error, traceback)

    def statistics(self) -> BudgetStatistics:
        """Return the figures at this moment."""
        return self._guard.run(self._statistics)

    def _statistics(self) -> BudgetStatistics:
        self._collect()
        blocks = [block for inside in self._inside.values() for block in (ref() for ref in inside)]
        held = [b.nbytes for b in blocks if b is not None and b.storage is not None and not b.is_shared]
        file = None if self._file is None else self._file.statistics()
        return BudgetStatistics(
            held_bytes=sum(held),
            peak_bytes=self._peak,
            host_bytes=sum(self._on_host.values()),
            file_bytes=0 if file is None else file.bytes_held,
            spill_count=self._spills,
            return_count=self._returns,
            ahead_count=self._ahead,
            spilled_bytes=0 if file is None else file.bytes_written,
            read_bytes=0 if file is None else file.bytes_read,
        )

    def _pack(self, x: Any) -> Any:
        with _NoFunctions():
            version = _Version(x)
            if not _is_movable(x):
                return version
            # The counter stays, and the memory is the block's.
            version.alias.data = self._nothing(x.device)
            block, number = self._guard.run(self._register, x)
            return _Saved(block, number, x, version)

    def _register(self, x: Any) -> tuple[_Block, int]:
        """Return the block of a saved tensor, and its number, and make room."""
        with paused():
            self._collect()
            block = self._block_of(x.untyped_storage())
            number = next(self._numbers)
            block.uses.append(number)
            self._by_number[number] = block.reference
            held = self._make_room(block.device, 0, number + 1)
            self._peak = max(self._peak, held)
            return block, number

    def _unpack(self, saved: Any) -> Any:
        if isinstance(saved, _Version):
            saved.check()
            return saved.alias
        saved.version.check()
        with _NoFunctions():
            return self._guard.run(self._restored, saved)

    def _restored(self, saved: _Saved) -> Any:
        block = saved.block
        with paused():
            self._collect()
            if block.storage is None:
                held = self._make_room(block.device, block.nbytes, saved.number + 1)
                self._peak = max(self._peak, held)
                self._bring(block)
            elif block.is_ahead:
                block.is_ahead = False
                self._ahead += 1
            if block.device.type == "cuda":
                self._bring_ahead(block.device, saved.number)
                if block.done is not None:
                    self._transfers[block.device].wait(block.done)
            return saved.restored()

    def _nothing(self, device: Any) -> Any:
        if device not in self._empty:
            self._empty[device] = torch.empty(0, device=device)
        return self._empty[device]

    def _block_of(self, storage: Any) -> _Block:
        known = self._by_storage.get(storage._cdata)
        block = None if known is None else known()
        if block is None or block.storage is None:
            block = _Block(storage, self._ended)
            self._enter(block)
        return block

    def _enter(self, block: _Block) -> None:
        block.reference.key = block.storage._cdata
        self._inside[block.device][block.reference] = block.nbytes
        self._by_storage[block.reference.key] = block.reference

    def _collect(self) -> None:
        """Remove the freed blocks."""
        while self._ended:
            reference = self._ended[0]
            device = reference.device
            nbytes = self._inside[device].pop(reference, 0)
            self._outside[device].pop(reference, None)
            if device.type == "cpu" and self._outside[device]:
                self._note_freed(nbytes)
            self._on_host.pop(reference, None)
            if self._by_storage.get(reference.key) is reference:
                del self._by_storage[reference.key]
            for number in reference.uses:
                self._by_number.pop(number, None)
            self._ended.popleft()

    def _make_room(self, device: Any, nbytes: int, number: int) -> int:
        """Move out what backward needs last, until `nbytes` more fit; return the bytes in memory with these.

        A backward pass before `number` is at hand. What somebody else keeps does not count.
        """
        inside = self._inside[device]
        held = sum(inside.values()) + nbytes
        if held <= self.limit or (device.type == "cpu" and self._file is None):
            return held
        blocks = [block for block in (reference() for reference in inside) if block is not None]
        for block in sorted(blocks, key=methodcaller("next_use", number)):
            if block.storage is None:  # an interrupt came in the middle
                inside.pop(block.reference, None)
            elif not block.is_shared:
                self._move_out(block)
            held -= block.nbytes
            if held <= self.limit:
                break
        return held

    def _move_out(self, block: _Block) -> None:
        device, reference = block.device, block.reference
        if device.type == "cpu":
            if block.spilled is None:
                assert self._file is not None
                block.spilled = self._file.write(buffer_of(block.storage))
        elif block.spilled is None:
            if device not in self._transfers:
                self._transfers[device] = Transfers(device)
            block.host, block.done = self._transfers[device].to_host(block.storage)
            self._on_host[reference] = block.nbytes
        self._outside[device][reference] = block.nbytes
        self._by_storage.pop(block.storage._cdata, None)
        block.storage = None
        self._inside[device].pop(reference, None)
        self._spills += 1
        if device.type == "cpu":
            self._note_freed(block.nbytes)
        self._make_room_on_host()

    def _make_room_on_host(self) -> None:
        if self.host_limit is None or self._file is None:
            return
        held = sum(self._on_host.values())
        for reference in list(self._on_host) if held > self.host_limit else ():
            block = reference()
            if block is not None and block.host is not None:
                block.done.synchronize()
                block.spilled = self._file.write(buffer_of(block.host))
                block.host = block.done = None
            held -= self._on_host.pop(reference, 0)
            if held <= self.host_limit:
                break

    def _note_freed(self, nbytes: int) -> None:
        """Note what C's heap got back; now and then, give the free parts of the heap to the system.

        Between small objects, a hole in the heap is of no use for a new tensor of the same size: the process
        would grow as if all were still in memory.
        """
        self._freed += nbytes
        if self._freed >= max(self.limit // 2, _LEAST_TO_TRIM):
            self._freed = 0
            heap.trim()

    def _bring(self, block: _Block) -> None:
        """Bring a block back into memory, or begin to, on a GPU."""
        device, host = block.device, block.host
        if host is None:
            assert block.spilled is not None
            host = pinned(block.nbytes) if device.type == "cuda" else paged(block.nbytes)
            block.spilled.read_into(buffer_of(host))
        if device.type == "cuda":
            block.storage, block.done = self._transfers[device].to_device(host)
            block.host = None
            self._on_host.pop(block.reference, None)
        else:
            block.storage = host
        self._enter(block)
        self._outside[device].pop(block.reference, None)
        self._returns += 1

    def _bring_ahead(self, device: Any, number: int) -> None:
        """Bring back what backward needs next after the saved tensor `number`, as far as there is room."""
        outside = self._outside[device]
        room = self.limit - sum(self._inside[device].values())
        while outside and number > 1:
            number -= 1
            reference = self._by_number.get(number)
            block = None if reference is None else reference()
            if block is None or block.device != device or block.storage is not None:
                continue
            room -= block.nbytes
            if room < 0:
                return
            self._bring(block)
            block.is_ahead = True


def _is_movable(x: Any) -> bool:
    """Return whether the memory of `x` may go elsewhere, and whether that would free any."""
    if type(x) not in _PLAIN or x.layout is not torch.strided or _is_wrapped(x):
        return False
    if not x.untyped_storage().resizable():  # of NumPy, or of another library
        return False
    if x.device.type not in ("cpu", "cuda") or x.is_conj() or x.is_neg():
        return False
    # The graph keeps its leaves themselves.
    base = x if x._base is None else x._base
    return x.untyped_storage().nbytes() >= _SMALL and not (base.is_leaf and base.requires_grad)
