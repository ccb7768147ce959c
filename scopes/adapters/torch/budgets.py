"""Budgets for saved tensors of PyTorch's graphs: tensors that do not fit go to pinned memory or to a file."""

from __future__ import annotations

import itertools
import os
import weakref
from collections import defaultdict, deque
from dataclasses import dataclass
from operator import methodcaller
from types import TracebackType
from typing import Any, Self

from scopes._shared.guard import Guard
from scopes._shared.naming import set_module
from scopes._shared.sizes import parse_size
from scopes._shared.spill import Spilled, SpillFile
from scopes.adapters.torch.disposal import trim
from scopes.adapters.torch.library import torch
from scopes.adapters.torch.noting import paused
from scopes.adapters.torch.saved import Version, is_movable, nothing_on
from scopes.adapters.torch.transfers import Transfers, buffer_of, paged, pinned
from scopes.adapters.torch.whole_steps import WholeSteps

_NoFunctions = torch._C.DisableTorchFunction
_use_count = torch._C._storage_Use_Count
# The least bytes freed between two trims of the heap. A trim takes about 1 ms, and so does the next use of
# the pages.
_LEAST_TO_TRIM = 16 * 2**20


@set_module("scopes.torch")
@dataclass(frozen=True, slots=True)
class BudgetStatistics:
    """Statistics of a ``scopes.torch.budget`` at one moment."""

    #: The bytes in memory that only graphs keep, and their peak. Parameters do not count. Tensors that the
    #: program also keeps do not count either. With ``recompute=True``, the bytes of all tensors.
    held_bytes: int
    peak_bytes: int
    #: The saved bytes in pinned memory, and in the file.
    host_bytes: int
    file_bytes: int
    #: How often a storage was moved out, and how often it was brought back.
    spill_count: int
    return_count: int
    #: How many of the storages brought back were requested before backward needed them.
    ahead_count: int
    #: The total bytes written to the file, and read from it.
    spilled_bytes: int
    read_bytes: int
    #: How many operations ran again, with ``recompute=True``.
    recompute_count: int = 0


class _Block:
    """A storage that graphs have saved, in memory, pinned memory or the file. The last graph frees it."""

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
        # For a storage of a GPU: the copy in pinned memory, and the event at the end of the last copy.
        self.host: Any = None
        self.done: Any = None
        self.is_ahead = False
        self.spilled: Spilled | None = None
        # The numbers of the saved tensors that use this storage. Backward needs the highest number first.
        self.uses: list[int] = []
        self.reference = _Reference(self, ended.append)
        self.reference.device, self.reference.uses = self.device, self.uses
        self.reference.key = storage._cdata

    def next_use(self, number: int) -> int:
        """Return the first use in backward after that of the saved tensor `number`; -1 for none."""
        return max((use for use in self.uses if use < number), default=-1)

    @property
    def is_shared(self) -> bool:
        """Whether anything else refers to the storage."""
        return bool(_use_count(self.storage._cdata) > 1)


class _Reference(weakref.ref[_Block]):
    """Weak reference to a block. One call in C appends it to a list when the block is freed."""

    __slots__ = ("device", "key", "uses")

    device: Any
    key: int
    uses: list[int]


class _Saved:
    """Represents a saved tensor in the graph: a block, and the position in it."""

    __slots__ = ("block", "dtype", "number", "offset", "shape", "strides", "version")

    def __init__(self, block: _Block, number: int, x: Any, version: Version) -> None:
        self.block = block
        self.number = number
        self.version = version
        self.dtype, self.shape = x.dtype, x.shape
        self.strides, self.offset = x.stride(), x.storage_offset()

    def restored(self) -> Any:
        """Return a new tensor over the block."""
        empty = torch.empty(0, dtype=self.dtype, device=self.block.device)
        return empty.set_(self.block.storage, self.offset, self.shape, self.strides)


@set_module("scopes.torch")
class budget:  # noqa: N801  # it is called like a function
    """Limit the memory that graphs save for backward in a block, and move out tensors that do not fit.

    If the saved tensors of forward passes in the block take more than `size`, the budget moves out those that
    backward needs last. It moves tensors of a GPU to pinned memory of the host, and tensors of the CPU to a
    file. Backward brings them back. On a GPU the copies start early. Gradients are bit-identical. The budget
    moves only as many tensors as necessary. Tensors that the program also keeps stay in memory and do not
    count, because moving them would free nothing. Parameters and tensors below 4 KiB do not count either.

    With ``recompute=True`` the block is whole training steps, and `size` is for all tensors on the CPU that
    the thread uses in it: parameters, gradients, the optimizer's state, batches, saved tensors and results.
    If the results of an operation do not fit, saved tensors leave memory. Backward computes them again or
    reads them from the file, whichever takes less time as measured. Losses and gradients are bit-identical.

    The budget applies to the thread that entered the block. Backward may run after the block.

    Parameters
    ----------
    size
        The most bytes for each device: an int, or text such as ``"512 MiB"``.
    spill
        A folder on a disk, for a file without a name. Tensors on the CPU need it. Tensors from a GPU go there
        if they exceed `host`.
    host
        The limit for pinned memory; None for no limit.
    recompute
        Whether to limit all memory of whole steps, and to compute saved tensors again. It works below
        autograd, operation by operation: no ``forward`` and no hook runs twice. For tensors on the CPU.
    spill_parameters
        With ``recompute=True``, whether tensors that the program holds may be in the file between their uses,
        if the rest does not suffice: parameters, gradients, the optimizer's state, batches. Inside the block
        no other thread and no compiled code may use these tensors: the process would crash.

    Raises
    ------
    torch.OutOfMemoryError
        With ``recompute=True``, before an operation that does not fit alone, with what can't leave memory.
        The message has the least size that the operation needs.
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

    Whole steps:

    >>> model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(20)))
    >>> with scopes.torch.budget("1 GiB", recompute=True) as held:
    ...     for _ in range(3):
    ...         model(torch.ones(256, 64)).sum().backward()
    >>> held.statistics().peak_bytes <= 2**30
    True
    """

    def __init__(
        self,
        size: int | str,
        *,
        spill: str | os.PathLike[str] | None = None,
        host: int | str | None = None,
        recompute: bool = False,
        spill_parameters: bool = False,
    ) -> None:
        self.limit: int = parse_size(size, "size")
        self.host_limit: int | None = None if host is None else parse_size(host, "host")
        self._steps: WholeSteps | None = None
        if recompute:
            if host is not None:
                raise ValueError(
                    "host= limits pinned memory, and recompute=True is for tensors on the CPU: write "
                    f"scopes.torch.budget({size!r}, recompute=True) without host="
                )
            if spill_parameters and spill is None:
                raise ValueError(
                    "spill_parameters=True requires a folder on a disk: write "
                    f"scopes.torch.budget({size!r}, recompute=True, spill_parameters=True, spill='/a/folder')"
                )
            self._steps = WholeSteps(self.limit, spill, spill_parameters)
            return
        if spill_parameters:
            raise ValueError(
                "without recompute=True a budget is for saved tensors alone: write scopes.torch.budget("
                f"{size!r}, recompute=True, spill_parameters=True, spill='/a/folder')"
            )
        if spill is None and not torch.cuda.is_available():
            raise ValueError(
                "a budget for tensors on the CPU requires a folder on a disk for the tensors that do not "
                f"fit: write scopes.torch.budget({size!r}, spill='/a/folder')"
            )
        if spill is None and host is not None:
            raise ValueError(
                "a limit for pinned memory requires a folder on a disk for the tensors that do not fit: "
                f"write scopes.torch.budget({size!r}, host={host!r}, spill='/a/folder')"
            )
        self._file = None if spill is None else SpillFile(spill)
        self._guard = Guard()
        self._numbers = itertools.count(1)
        # The blocks in memory and the blocks moved out, by device, and the blocks in pinned memory, each with
        # its bytes. One call in C changes each dict, so an interrupt never leaves it half changed.
        self._inside: defaultdict[Any, dict[_Reference, int]] = defaultdict(dict)
        self._outside: defaultdict[Any, dict[_Reference, int]] = defaultdict(dict)
        self._on_host: dict[_Reference, int] = {}
        # The blocks by the address of the storage in memory, and by the number of the saved tensor.
        self._by_storage: dict[int, _Reference] = {}
        self._by_number: dict[int, _Reference] = {}
        self._ended: deque[_Reference] = deque()
        self._transfers: dict[Any, Transfers] = {}
        self._freed = 0
        self._peak = self._spills = self._returns = self._ahead = 0
        self._hooks: Any = None

    def __enter__(self) -> Self:
        if self._steps is not None:
            if self._steps.is_open:
                raise RuntimeError(
                    "this budget is already open: write a new `with scopes.torch.budget(...):`"
                )
            self._steps.open()
            return self
        if self._hooks is not None:
            raise RuntimeError("this budget is already open: write a new `with scopes.torch.budget(...):`")
        hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        hooks.__enter__()
        self._hooks = hooks
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._steps is not None:
            self._steps.close()
            return
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            hooks.__exit__(kind, error, traceback)

    def statistics(self) -> BudgetStatistics:
        """Return the current statistics."""
        if self._steps is not None:
            return _statistics_of(self._steps)
        return self._guard.run(self._statistics)

    def _statistics(self) -> BudgetStatistics:
        self._collect()
        held = self._held_bytes()
        self._peak = max(self._peak, held)
        file = None if self._file is None else self._file.statistics()
        return BudgetStatistics(
            held_bytes=held,
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
            version = Version(x)
            if not is_movable(x):
                return version
            # Keep only the version counter here. The block keeps the memory.
            version.alias.data = nothing_on(x.device)
            block, number = self._guard.run(self._register, x)
            return _Saved(block, number, x, version)

    def _register(self, x: Any) -> tuple[_Block, int]:
        """Make room for a saved tensor, and return its block and its number."""
        with paused():
            self._collect()
            block = self._block_of(x.untyped_storage())
            number = next(self._numbers)
            block.uses.append(number)
            self._by_number[number] = block.reference
            self._make_room(block.device, 0, number + 1)
            self._raise_peak()
            return block, number

    def _unpack(self, saved: Any) -> Any:
        if isinstance(saved, Version):
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
                self._make_room(block.device, block.nbytes, saved.number + 1)
                self._bring(block)
            elif block.is_ahead:
                block.is_ahead = False
                self._ahead += 1
            self._raise_peak()
            if block.device.type == "cuda":
                self._bring_ahead(block.device, saved.number)
                if block.done is not None:
                    self._transfers[block.device].wait(block.done)
            return saved.restored()

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
        """Remove the entries of freed blocks."""
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

    def _held_bytes(self) -> int:
        """Return the bytes of the blocks in memory, without shared ones."""
        blocks = [block for inside in self._inside.values() for block in (ref() for ref in inside)]
        return sum(b.nbytes for b in blocks if b is not None and b.storage is not None and not b.is_shared)

    def _raise_peak(self) -> None:
        # The sum of all blocks takes less time, and usually shows that there is no new peak.
        if sum(sum(inside.values()) for inside in self._inside.values()) > self._peak:
            self._peak = max(self._peak, self._held_bytes())

    def _make_room(self, device: Any, nbytes: int, number: int) -> None:
        """Move out blocks until `nbytes` more fit.

        First move the blocks that backward needs last, counted from the saved tensor `number`. Shared blocks
        do not count.
        """
        inside = self._inside[device]
        held = sum(inside.values()) + nbytes
        if held <= self.limit or (device.type == "cpu" and self._file is None):
            return
        blocks = [block for block in (reference() for reference in inside) if block is not None]
        for block in sorted(blocks, key=methodcaller("next_use", number)):
            if block.storage is None:  # moved out, but an interrupt prevented the update
                inside.pop(block.reference, None)
            elif not block.is_shared:
                self._move_out(block)
            held -= block.nbytes
            if held <= self.limit:
                break

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
        """Count bytes freed in the C heap, and trim the heap from time to time.

        The heap often can't reuse a freed block between small objects, even for a tensor of the same size.
        Without trims the process would grow as if all tensors were still in memory.
        """
        self._freed += nbytes
        if self._freed >= max(self.limit // 2, _LEAST_TO_TRIM):
            self._freed = 0
            trim()

    def _bring(self, block: _Block) -> None:
        """Bring a block back into memory. On a GPU, only start the copy."""
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
        """Bring back the blocks that backward needs after the saved tensor `number`, while they fit."""
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


def _statistics_of(steps: WholeSteps) -> BudgetStatistics:
    held = steps.held_bytes()
    file = None if steps.file is None else steps.file.statistics()
    return BudgetStatistics(
        held_bytes=held,
        peak_bytes=steps.peak,
        host_bytes=0,
        file_bytes=0 if file is None else file.bytes_held,
        spill_count=steps.spills,
        return_count=steps.returns,
        ahead_count=0,
        spilled_bytes=0 if file is None else file.bytes_written,
        read_bytes=0 if file is None else file.bytes_read,
        recompute_count=steps.recomputed,
    )
