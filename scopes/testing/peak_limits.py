"""Limits on the peak of living tensors and memory while tracking is on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scopes._shared.sizes import format_bytes
from scopes.core.scope import Disposable
from scopes.testing.leftovers import Leftovers, alive_of, others_than
from scopes.tracking import tracking
from scopes.tracking.meters import Meter
from scopes.tracking.records import Record
from scopes.tracking.sites import Site

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope

# After all memory was measured, at least this part of the limit is allocated before the next measurement.
_MIN_HEADROOM = 1 / 16


class Moment:
    """The disposables alive when a limit was exceeded, and the line that exceeded it."""

    def __init__(self, last: Record, records: list[Record]) -> None:
        self.site: Site = last.site
        items = alive_of(records)
        self.alive: Leftovers = Leftovers(items, others_than(items))

    def __str__(self) -> str:
        exceeded = f"The limit was exceeded at {self.site}: {self.site.text}"
        return "\n".join([exceeded, f"Alive at that moment: {self.alive}:", *self.alive.lines()])


class Limits:
    """Listener that measures the peak number of living disposables and the peak memory.

    Parameters
    ----------
    live_count
        The most tensors that may be alive at once; None for no limit.
    nbytes
        The most bytes that may be live above the start; None for no limit. Memory of other libraries may
        exceed it by up to a sixteenth without notice.
    """

    def __init__(self, live_count: int | None, nbytes: int | None) -> None:
        self.live_count = live_count
        self.nbytes = nbytes
        self.live_peak: int = 0
        self._meter = None if nbytes is None else Meter()
        # The records of living disposables by serial number.
        self._alive: dict[int, Record] = {}
        self._is_paused = True
        self._too_many: Moment | None = None
        self._too_large: Moment | None = None
        # Bytes to allocate before all memory is measured again.
        self._headroom = 0.0 if nbytes is None else float(nbytes)

    def __enter__(self) -> Self:
        tracker = tracking.current.tracker
        if tracker is not None:
            tracker.listeners += (self,)
        self.resume()
        return self

    def __exit__(self, *error: object) -> None:
        self.pause()
        tracker = tracking.current.tracker
        if tracker is not None:
            tracker.listeners = tuple([each for each in tracker.listeners if each is not self])
        self._alive.clear()

    def pause(self) -> None:
        """Stop counting creations until ``resume``."""
        self._is_paused = True
        if self._meter is not None:
            self._meter.pause()

    def resume(self) -> None:
        """Continue after ``pause``."""
        self._is_paused = False
        if self._meter is not None:
            self._meter.begin()

    def created(self, record: Record) -> None:
        """Count a new disposable."""
        if self._is_paused or not (record.foreign is not None or isinstance(record(), Disposable)):
            return
        self._alive[record.serial] = record
        count = len(self._alive)
        self.live_peak = max(self.live_peak, count)
        if self.live_count is not None and count > self.live_count and self._too_many is None:
            self._too_many = self._moment(record)
        if self.nbytes is not None and self._too_large is None:
            self._headroom -= record.nbytes
            if self._headroom < 0:
                self._measure(record, self.nbytes)

    def _measure(self, record: Record, most: int) -> None:
        moment = self._moment(record)
        if moment is not None:
            headroom = most - moment.alive.nbytes
            if headroom < 0:
                self._too_large = moment
            self._headroom = max(headroom, most * _MIN_HEADROOM)

    def _moment(self, record: Record) -> Moment | None:
        try:
            return Moment(record, list(self._alive.values()))
        except (AttributeError, RuntimeError):
            return None  # another thread is changing the objects: the next measurement finds it

    def ended(self, record: Record, how: str) -> None:  # noqa: ARG002  # as listeners are called
        """Count the end of a disposable."""
        self._alive.pop(record.serial, None)

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Ignore a new scope."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Ignore the end of a scope."""

    def verdict(self) -> str | None:
        """Return the text of the failure, or None."""
        texts = []
        if self.live_count is not None and self._too_many is not None:
            texts.append(
                f"limit_live_tensors allows {self.live_count} tensors at the same time. The peak of the test "
                f"was {self.live_peak}.\n{self._too_many}"
            )
        if self.nbytes is not None and self._meter is not None:
            # The meter does not include memory of other libraries, but the measurements do.
            found = 0 if self._too_large is None else self._too_large.alive.nbytes
            peak = max(self._meter.peak_bytes, found)
            if peak > self.nbytes:
                where = self._too_large or (
                    "Tensors and their graphs never exceeded the limit: the rest was temporary memory of "
                    "single operations."
                )
                texts.append(
                    f"limit_tensor_memory allows {format_bytes(self.nbytes)} at the same time. The peak of "
                    f"the test was {format_bytes(peak)}.\n{where}"
                )
        return "\n\n".join(texts) or None
