"""Measure memory and its peaks, by functions that ``tensor`` registers: `scopes` does not import it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from scopes._shared.naming import set_module


class Measure(Protocol):
    """Interface of ``tensor.memory.measure()``: a block whose memory is measured."""

    def __enter__(self) -> object:
        """Begin."""

    def __exit__(self, *error: object) -> object:
        """End. The results remain."""

    @property
    def peak_bytes_change(self) -> int:
        """The peak of live bytes minus the live bytes at the beginning."""

    @property
    def live_bytes_change(self) -> int:
        """The live bytes minus the live bytes at the beginning."""


# The functions that return live and cached bytes, for timelines.
memory_figures: list[Callable[[], tuple[int, int]]] = []


@set_module("scopes.lowlevel")
def measure_memory_by(figures: Callable[[], tuple[int, int]]) -> None:
    """Register a function that returns the live and the cached bytes, for timelines.

    Timelines call it at most every millisecond and after large changes, so it should take at most about
    50 us. The results of several packages are added.

    Examples
    --------
    >>> from scopes.tracking.meters import measure_memory_by
    >>> measure_memory_by(lambda: (0, 0))
    """
    memory_figures.append(figures)


_measures: list[Callable[[], Measure]] = []
_open: list[Meter] = []


@set_module("scopes.lowlevel")
def measure_peaks_by(measure: Callable[[], Measure]) -> None:
    """Register the context manager that measures peaks of memory. Running meters start it immediately.

    Examples
    --------
    >>> from scopes.tracking.meters import measure_peaks_by
    >>> from tensor import memory
    >>> measure_peaks_by(memory.measure)
    """
    _measures[:] = [measure]
    for meter in _open:
        meter.begin()


class Meter:
    """Peak of live memory minus the live memory at the start. Changes during pauses do not count.

    It measures nothing before ``tensor`` is imported, because no tensor exists.
    """

    __slots__ = ("_carried", "_peak", "_running")

    def __init__(self) -> None:
        self._peak = 0
        # The sum of the changes of live bytes while the meter ran, before the last pause.
        self._carried = 0
        self._running: Measure | None = None

    def begin(self) -> None:
        """Begin, or continue after a pause."""
        if self not in _open:
            _open.append(self)
        if self._running is None and _measures:
            self._running = _measures[0]()
            self._running.__enter__()

    def pause(self) -> None:
        """Stop, permanently or until ``begin``."""
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
