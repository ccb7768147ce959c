"""Memory and its peaks, measured by the package that owns the memory, for code that knows no tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


class Measure(Protocol):
    """A block whose use of memory is measured: what ``tensor.memory.measure()`` returns."""

    def __enter__(self) -> object:
        """Begin."""

    def __exit__(self, *error: object) -> object:
        """End; the figures stay."""

    @property
    def peak_bytes_change(self) -> int:
        """How far the most that was live at once is above what was live when the block began."""

    @property
    def live_bytes_change(self) -> int:
        """How much more is live than when the block began."""


# What timelines ask for the bytes that are live and cached.
memory_figures: list[Callable[[], tuple[int, int]]] = []


def measure_memory_by(figures: Callable[[], tuple[int, int]]) -> None:
    """Let timelines ask ``figures()`` for the bytes that are live now, and the bytes that are cached.

    It is asked at most every millisecond and after large creations, so some 50 us are well spent. What
    several packages say is added.

    Examples
    --------
    >>> from scopes.lowlevel import measure_memory_by
    >>> measure_memory_by(lambda: (0, 0))
    """
    memory_figures.append(figures)


_measures: list[Callable[[], Measure]] = []
_open: list[Meter] = []


def measure_peaks_by(measure: Callable[[], Measure]) -> None:
    """Let peaks of memory be measured by ``with measure():``. Meters that run already begin it now.

    Examples
    --------
    >>> from scopes.lowlevel import measure_peaks_by
    >>> from tensor import memory
    >>> measure_peaks_by(memory.measure)
    """
    _measures[:] = [measure]
    for meter in _open:
        meter.begin()


class Meter:
    """The peak of what is live above what was there at the start; what comes while it pauses is not in it.

    Nobody measures before ``tensor`` is imported, for there is nothing to measure.
    """

    __slots__ = ("_carried", "_peak", "_running")

    def __init__(self) -> None:
        self._peak = 0
        # What is live of that which came while it ran.
        self._carried = 0
        self._running: Measure | None = None

    def begin(self) -> None:
        """Begin, or go on after a pause."""
        if self not in _open:
            _open.append(self)
        if self._running is None and _measures:
            self._running = _measures[0]()
            self._running.__enter__()

    def pause(self) -> None:
        """Stop, for good or until ``begin``."""
        if self in _open:
            _open.remove(self)
        measure, self._running = self._running, None
        if measure is not None:
            measure.__exit__(None, None, None)
            self._peak = max(self._peak, self._carried + measure.peak_bytes_change)
            self._carried += measure.live_bytes_change

    @property
    def peak_bytes(self) -> int:
        """The peak so far, in bytes."""
        measure = self._running
        return self._peak if measure is None else max(self._peak, self._carried + measure.peak_bytes_change)
