"""``statistics``: what memory PyTorch's tensors take now, on the CPU or a CUDA device."""

from __future__ import annotations

from typing import Any, NamedTuple

from scopes._shared.html import figures_to_html
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes
from scopes.adapters.torch import counting, cpu_allocator, cuda_memory
from scopes.adapters.torch.library import torch


@set_module("scopes.torch.memory")
class MemoryStatistics(NamedTuple):
    """Memory statistics of one device at one moment. Subtract two of them for the change.

    Examples
    --------
    >>> import torch
    >>> from scopes.torch import memory
    >>> before = memory.statistics()
    >>> x = torch.ones(1000)
    >>> made = memory.statistics() - before
    >>> made.bytes_live, made.allocation_count
    (4000, 1)
    """

    #: The memory that PyTorch's allocator has given out: storages, saved values and workspaces.
    bytes_live: int
    #: The peak of live bytes since the start, or since ``reset_peak()``.
    bytes_peak: int
    #: The total of all bytes that were ever live.
    bytes_allocated: int
    #: The total of all bytes that are no longer live.
    bytes_freed: int
    #: The free memory that PyTorch keeps. On the CPU it keeps none.
    bytes_cached: int
    #: The number of allocations so far.
    allocation_count: int
    #: The CPU memory of tensors from before the import of this module. Other figures do not include it.
    bytes_uncounted: int = 0

    def __sub__(self, other: MemoryStatistics) -> MemoryStatistics:
        return MemoryStatistics(*[now - before for now, before in zip(self, other, strict=True)])

    def __str__(self) -> str:
        return "; ".join(f"{name}: {figure}" for name, figure in self._shown().items())

    def _repr_html_(self) -> str:
        return figures_to_html(self._shown())

    def _shown(self) -> dict[str, str]:
        return {
            name: format_bytes(value) if name.startswith("bytes") else str(value)
            for name, value in self._asdict().items()
        }


@set_module("scopes.torch.memory")
def statistics(device: Any = "cpu") -> MemoryStatistics:
    """Return the memory statistics of this moment.

    Those of a CUDA device are PyTorch's own.

    Parameters
    ----------
    device
        ``"cpu"``, or a CUDA device such as ``"cuda:0"``: a string or a ``torch.device``.

    Raises
    ------
    RuntimeError
        If the memory of CPU tensors can't be counted on this system. The error gives the reason.
    ValueError
        If `device` is neither the CPU nor a CUDA device.

    Examples
    --------
    >>> import torch
    >>> from scopes.torch import memory
    >>> x = torch.ones(100, 100)
    >>> figures = memory.statistics()
    >>> figures.bytes_peak >= figures.bytes_live >= 40_000
    True
    """
    index = index_of(device)
    if index is None:
        live, peak, allocated, freed, count = counting.counted(cpu_allocator.figures)
        return MemoryStatistics(live, peak, allocated, freed, 0, count, counting.uncounted_bytes())
    live, peak, allocated, freed, count, cached = cuda_memory.figures(index)
    return MemoryStatistics(live, peak, allocated, freed, cached, count)


@set_module("scopes.torch.memory")
def reset_peak(device: Any = "cpu") -> None:
    """Reset `bytes_peak` to the bytes that are live now. This does not affect ``memory.measure``.

    On a CUDA device it also resets PyTorch's own peak.

    Parameters
    ----------
    device
        See ``statistics``.

    Examples
    --------
    >>> from scopes.torch import memory
    >>> memory.reset_peak()
    >>> figures = memory.statistics()
    >>> figures.bytes_peak == figures.bytes_live
    True
    """
    index = index_of(device)
    if index is None:
        counting.counted(cpu_allocator.reset_peak)
    else:
        cuda_memory.reset_peak(index)


def index_of(device: Any) -> int | None:
    """Return the index of a CUDA device, or None for the CPU.

    Raises
    ------
    ValueError
        If `device` is another one.
    """
    found = torch.device(device)
    if found.type == "cpu":
        return None
    if found.type != "cuda":
        raise ValueError(
            f"scopes.torch.memory has no figures of the device {str(found)!r}: write 'cpu', or a CUDA device "
            "such as 'cuda:0'"
        )
    return int(torch.cuda.current_device()) if found.index is None else int(found.index)
