"""``measure``: measure the memory of a block or function; ``limit``: limit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Self, TypeVar
from warnings import warn

from scopes._shared.decorating import in_block
from scopes._shared.naming import set_module
from scopes._shared.sizes import format_bytes, parse_size
from scopes.tracking.meters import measure_memory_by, measure_peaks_by
from tensor.memory.allocator import Bound, Watch, cached_bytes, live_and_allocated

_P = ParamSpec("_P")
_R = TypeVar("_R")


@set_module("tensor.memory")
class measure:  # noqa: N801  # it is called like a function
    """Measure the memory of a ``with`` block, or of each call of a decorated function.

    The attributes can be read inside the block and after it. They cover the whole process, including
    allocations of other threads. Measures can nest and overlap. For a decorated function, the attributes are
    those of the last call that ended.

    Raises
    ------
    RuntimeError
        If an attribute is read before the block starts, or the same object is entered twice at once.

    Examples
    --------
    >>> import tensor
    >>> from tensor import memory
    >>> with memory.measure() as step:
    ...     y = tensor.ones((1000,)) * 2
    >>> step.peak_bytes_change >= step.live_bytes_change
    True
    """

    __slots__ = ("_allocated", "_live", "_results", "_watch")

    def __init__(self) -> None:
        # While running: the watch of the peak, and the bytes at the start. Afterwards: the peak, its change,
        # the allocated bytes, and the change of live bytes.
        self._watch: Watch | None = None
        self._live = 0
        self._allocated = 0
        self._results: tuple[int, int, int, int] | None = None

    def __enter__(self) -> Self:
        if self._watch is not None:
            raise RuntimeError("this measure is already running: write memory.measure() for each block")
        self._results = None
        watch = Watch()
        watch.start()
        self._live, self._allocated = live_and_allocated()
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
        """The bytes of all allocations in the block, including those from the pool."""
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
        live, allocated = live_and_allocated()
        peak = watch.nbytes
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
        self._to = to

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._to._results = self._results


@set_module("tensor.memory")
class limit:  # noqa: N801  # it is called like a function
    """Limit the memory of the process in a ``with`` block, or in each call of a decorated function.

    The limit applies to live, pinned and cached bytes together. If an allocation would exceed it, the pool is
    trimmed, then the garbage collector runs. If that is not enough, the allocation raises
    ``OutOfMemoryError``. Of nested limits, including the limit of ``configure``, the smallest applies. Memory
    that is already live is not freed. The garbage collector runs finalizers without the caller's scope and
    settings, as on a new thread.

    Parameters
    ----------
    nbytes
        Bytes, or text such as ``"2 GiB"``.

    Raises
    ------
    ValueError
        If `nbytes` is not a size.

    Warns
    -----
    RuntimeWarning
        If the object is deleted without a ``with`` block or a decorated function: then it limited nothing.

    Examples
    --------
    >>> from tensor import memory
    >>> with memory.limit("2 GiB"):
    ...     pass
    """

    __slots__ = ("_entered", "_is_used", "nbytes")

    def __init__(self, nbytes: int | str) -> None:
        self.nbytes: int = parse_size(nbytes, "limit")
        self._entered: list[Bound] = []
        self._is_used = False

    def __enter__(self) -> Self:
        self._is_used = True
        bound = Bound(self.nbytes)
        bound.set()
        self._entered.append(bound)
        return self

    def __exit__(self, *error: object) -> None:
        self._entered.pop().lift()

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
                "memory.limit(...):`, or memory.configure(limit_bytes=...) for the whole process",
                RuntimeWarning,
                stacklevel=2,
            )


measure_peaks_by(measure)
measure_memory_by(lambda: (live_and_allocated()[0], cached_bytes()))
