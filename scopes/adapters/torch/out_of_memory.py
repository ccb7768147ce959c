"""The error for an allocation that exceeds ``scopes.torch.memory.limit``, with the largest holders."""

from __future__ import annotations

import gc
from collections import defaultdict
from typing import Any

from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.adapters import foreign
from scopes.adapters.torch import cpu_allocator
from scopes.adapters.torch.library import torch
from scopes.adapters.torch.memory import parts_of
from scopes.tracking.tracking import largest_lines

_NoFunctions = torch._C.DisableTorchFunction
_MOST_HOLDERS, _MOST_LINES = 5, 5


# Libraries that look for a batch size that fits expect PyTorch's class, and programs may expect Python's.
@set_module("scopes.torch.memory")
class OutOfMemoryError(torch.OutOfMemoryError, MemoryError):  # type: ignore[misc, name-defined]
    """An allocation would exceed the limit. It has not happened, and nothing has changed.

    Before it is raised, the garbage collector runs. It is a ``torch.OutOfMemoryError`` and a ``MemoryError``.

    Attributes
    ----------
    asked : int
        The requested bytes.
    live : int
        The live bytes.
    limit : int
        The limit in bytes.
    holders : tuple of str
        Descriptions of the largest holders of memory. They keep nothing alive.
    """

    def __init__(
        self, asked: int, live: int, limit: int, holders: tuple[str, ...] = (), lines: tuple[str, ...] = ()
    ) -> None:
        self.asked = asked
        self.live = live
        self.limit = limit
        self.holders = holders
        held = f" The largest holders: {'; '.join(holders)}." if holders else ""
        if lines:
            held += f" The lines that created most: {'; '.join(lines)}."
        # The beginning is PyTorch's own text. Libraries look for it.
        super().__init__(
            f"DefaultCPUAllocator: can't allocate memory: the limit of memory is {format_bytes(limit)}: "
            f"asked for {format_bytes(asked)} more, with {format_bytes(live)} live.{held} Dispose or delete "
            "tensors that are not needed, use smaller batches, or run inference under torch.no_grad(); or "
            "raise the limit"
        )
        self._lines = lines

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.asked, self.live, self.limit, self.holders, self._lines)


def described(asked: int, limit: int) -> OutOfMemoryError:
    """Return the error for a refused allocation, with the holders and lines of this moment."""
    live = cpu_allocator.figures()[0]
    return OutOfMemoryError(asked, live, limit, _largest_holders(live), tuple(largest_lines(_MOST_LINES)))


def _largest_holders(live: int) -> tuple[str, ...]:
    """Return the largest groups of tensors of one kind and shape, and the bytes that no tensor holds."""
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for x, nbytes in counted_storages().values():
        groups[f"{_dtype(x)}{list(x.shape)}{' parameter' * isinstance(x, torch.nn.Parameter)}"].append(nbytes)
    rest = live - sum(map(sum, groups.values()))
    found = sorted(groups.items(), key=lambda group: -sum(group[1]))
    texts = [f"{len(sizes)} x {kind}, {format_bytes(sum(sizes))}" for kind, sizes in found[:_MOST_HOLDERS]]
    if found[_MOST_HOLDERS:]:
        count = sum(len(sizes) for _, sizes in found[_MOST_HOLDERS:])
        texts.append(f"{count} others, {format_bytes(sum(sum(sizes) for _, sizes in found[_MOST_HOLDERS:]))}")
    if rest > 0:
        text = f"{format_bytes(rest)} that only C++ holds, such as values that a graph has saved"
        # Such tensors are in no list of the garbage collector.
        texts.append(f"{text}, or tensors that gc.freeze() hides" if gc.get_freeze_count() else text)
    return tuple(texts)


def _dtype(x: Any) -> str:
    return str(x.dtype).removeprefix("torch.")


def counted_storages() -> dict[int, tuple[Any, int]]:
    """Return the counted memory that Python's tensors hold: by address, one of its tensors and the bytes."""
    found: dict[int, tuple[Any, int]] = {}
    for x, address in cpu_tensors():
        nbytes = cpu_allocator.size_of(address)
        if nbytes and (address not in found or found[address][0].nbytes < x.nbytes):
            found[address] = x, nbytes
    return found


@foreign.hiding
def cpu_tensors() -> list[tuple[Any, int]]:
    """Return all tensors of Python whose memory is on the CPU, each with the address of its storage.

    A tensor of several tensors, such as a sparse one, counts as these.
    """
    found: list[tuple[Any, int]] = []
    with _NoFunctions():
        for each in gc.get_objects():
            if torch.Tensor not in type(each).__mro__ or getattr(type(each), "is_invalid", False):
                continue
            try:
                for x in parts_of(each):
                    if x.device.type == "cpu":
                        # Not `x.data_ptr()`, which copies a lazy clone.
                        offset = x.storage_offset() * x.element_size()
                        found.append((x, torch._C._data_address(x) - offset))
            except (RuntimeError, NotImplementedError):
                continue  # without memory of its own: a fake tensor, or a wrapper of torch.func
    return found
