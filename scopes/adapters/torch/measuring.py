"""``measure``: measure the memory of a block or function; ``limit``: limit it, for PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar
from warnings import warn

from scopes._shared.decorating import in_block
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes, parse_size
from scopes.adapters.torch import counting, cpu_allocator
from scopes.adapters.torch.cuda_memory import CudaWatch
from scopes.adapters.torch.memory_figures import index_of

_P = ParamSpec("_P")
_R = TypeVar("_R")


@set_module("scopes.torch.memory")
class measure:  # noqa: N801  # it is called like a function
    """Measure the memory of a ``with`` block, or of each call of a decorated function.

    The attributes can be read inside the block and after it. They cover the whole process, including
    allocations of other threads. Measures can nest and overlap. For a decorated function, the attributes are
    those of the last call that ended.

    The figures of the CPU are exact: they count each block of PyTorch's allocator from its birth to its end,
    also the workspaces inside operations and what backward allocates. The figures of a CUDA device are
    PyTorch's own. There, the start of a measure resets ``torch.cuda.max_memory_allocated``.

    Parameters
    ----------
    device
        ``"cpu"``, or a CUDA device such as ``"cuda:0"``: a string or a ``torch.device``.

    Raises
    ------
    RuntimeError
        If an attribute is read before the block starts, or the same object is entered twice at once; or if
        the memory of CPU tensors can't be counted on this system.
    ValueError
        If `device` is neither the CPU nor a CUDA device.

    Examples
    --------
    >>> import torch
    >>> from scopes.torch import memory
    >>> with memory.measure() as step:
    ...     y = torch.ones(1000).neg()
    >>> step.peak_bytes_change, step.live_bytes_change, step.allocated_bytes
    (8000, 4000, 8000)
    """

    __slots__ = ("_allocated", "_device", "_live", "_results", "_watch")

    def __init__(self, device: Any = "cpu") -> None:
        # None: the CPU.
        self._device = index_of(device)
        # While running: the watch of the peak, and the bytes at the start. Afterwards: the peak, its change,
        # the allocated bytes, and the change of live bytes.
        self._watch: cpu_allocator.Watch | CudaWatch | None = None
        self._live = 0
        self._allocated = 0
        self._results: tuple[int, int, int, int] | None = None

    def __enter__(self) -> Self:
        if self._watch is not None:
            raise RuntimeError("this measure is already running: write memory.measure() for each block")
        device = self._device
        watch = counting.counted(cpu_allocator.Watch) if device is None else CudaWatch(device)
        self._results = None
        self._live, self._allocated = watch.start()
        self._watch = watch
        return self

    def __exit__(self, *error: object) -> None:
        watch = self._watch
        if watch is not None:
            self._results = self._figures()
            self._watch = None
            watch.stop()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return `function`, measured at each call. An ``async def`` is measured until it ends."""

        def around() -> _Reporting:
            return _Reporting(self)

        return in_block(function, around)

    @property
    def peak_bytes(self) -> int:
        """The highest `bytes_live` of the process since the start of the block."""
        return self._figures()[0]

    @property
    def peak_bytes_change(self) -> int:
        """The difference of the peak and the live bytes at the start of the block."""
        return self._figures()[1]

    @property
    def allocated_bytes(self) -> int:
        """The bytes of all allocations in the block."""
        return self._figures()[2]

    @property
    def live_bytes_change(self) -> int:
        """The change of the live bytes since the start of the block; negative if memory was freed."""
        return self._figures()[3]

    def _figures(self) -> tuple[int, int, int, int]:
        if self._results is not None:
            return self._results
        watch = self._watch
        if watch is None:
            raise RuntimeError("nothing was measured yet: read the figures in the `with` block or after it")
        peak, live, allocated = watch.read()
        return peak, peak - self._live, allocated - self._allocated, live - self._live

    def __repr__(self) -> str:
        if self._watch is None and self._results is None:
            return "<measure: not started>"
        peak, change, allocated, live = self._figures()
        return (
            f"<measure: peak {format_bytes(peak)} ({format_bytes(change)} above the start), "
            f"allocated {format_bytes(allocated)}, live {format_bytes(live)} more>"
        )


class _Reporting(measure):
    """The measure of one call, which passes its results to the decorator's measure."""

    __slots__ = ("_to",)

    def __init__(self, to: measure) -> None:
        super().__init__()
        self._device = to._device
        self._to = to

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._to._results = self._results


@set_module("scopes.torch.memory")
class limit:  # noqa: N801  # it is called like a function
    """Limit the memory of CPU tensors in a ``with`` block, or in each call of a decorated function.

    The limit applies to the live bytes of the whole process, on all threads. If an allocation would exceed
    it, the garbage collector runs. If that is not enough, the allocation raises ``OutOfMemoryError``, before
    any memory is taken. Of nested limits, the smallest applies. Memory that is already live is not freed. The
    garbage collector runs finalizers on a thread of its own.

    For a CUDA device, write ``torch.cuda.set_per_process_memory_fraction``.

    Parameters
    ----------
    nbytes
        Bytes, or text such as ``"2 GiB"``.

    Raises
    ------
    RuntimeError
        If the memory of CPU tensors can't be counted on this system. The error gives the reason.
    ValueError
        If `nbytes` is not a size.

    Warns
    -----
    RuntimeWarning
        If the object is deleted without a ``with`` block or a decorated function: then it limited nothing.

    Examples
    --------
    >>> import torch
    >>> from scopes.torch import memory
    >>> with memory.limit(memory.statistics().bytes_live + 1_000_000):
    ...     try:
    ...         torch.ones(1000, 1000)
    ...     except memory.OutOfMemoryError as error:
    ...         error.asked
    4000000
    """

    __slots__ = ("_entered", "_is_used", "nbytes")

    def __init__(self, nbytes: int | str) -> None:
        self.nbytes: int = parse_size(nbytes, "limit")
        self._entered = 0
        self._is_used = False

    def __enter__(self) -> Self:
        self._is_used = True
        counting.counted(lambda: counting.limits.add(self.nbytes))
        self._entered += 1
        return self

    def __exit__(self, *error: object) -> None:
        self._entered -= 1
        counting.limits.remove(self.nbytes)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """Return `function`, limited at each call. An ``async def`` is limited until it ends."""
        self._is_used = True
        nbytes = self.nbytes

        def around() -> limit:
            return limit(nbytes)

        return in_block(function, around)

    def __del__(self) -> None:
        if not getattr(self, "_is_used", True):  # there is none after a ValueError
            warn(
                "memory.limit() limited nothing, because it is not in a with statement: write `with "
                "memory.limit(...):`",
                RuntimeWarning,
                stacklevel=2,
            )
