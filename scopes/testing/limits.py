"""Limits of what may be alive at once while tracking is on: the peak, and by which lines it was passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from scopes.core.disposable import Disposable
from scopes.testing.leftovers import Leftovers, alive_of, others_than
from scopes.tracking import tracking
from scopes.tracking.meters import Meter
from scopes.tracking.sizes import format_bytes

if TYPE_CHECKING:
    from scopes.core.scope import DisposeScope
    from scopes.tracking.records import Record
    from scopes.tracking.sites import Site

# After a look at what all tensors and graphs hold, so large a part of the limit must be made until the next.
_PART = 1 / 16


class Moment:
    """What was alive when a limit was passed, and the line that passed it."""

    def __init__(self, last: Record, records: list[Record]) -> None:
        self.site: Site = last.site
        items = alive_of(records)
        self.alive: Leftovers = Leftovers(items, others_than(items))

    def __str__(self) -> str:
        passed = f"The limit was passed at {self.site}: {self.site.text}"
        return "\n".join([passed, f"Alive at that moment: {self.alive}:", *self.alive.lines()])


class Limits:
    """Watches what is created while it runs: how many are alive at once, and how much memory is live.

    Parameters
    ----------
    live_count
        How many tensors may be alive at once; None for any number.
    nbytes
        How much more memory may be live than at the start, in bytes; None for any size. Of other libraries'
        memory up to a sixteenth more may pass.
    """

    def __init__(self, live_count: int | None, nbytes: int | None) -> None:
        self.live_count = live_count
        self.nbytes = nbytes
        self.live_peak: int = 0
        self._meter = None if nbytes is None else Meter()
        # By their numbers.
        self._alive: dict[int, Record] = {}
        self._is_paused = True
        self._too_many: Moment | None = None
        self._too_large: Moment | None = None
        # No look at all memory is due before so many bytes more are made.
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
        """Count nothing of what is created from now on, until ``resume``."""
        self._is_paused = True
        if self._meter is not None:
            self._meter.pause()

    def resume(self) -> None:
        """Go on after ``pause``."""
        self._is_paused = False
        if self._meter is not None:
            self._meter.begin()

    def created(self, record: Record) -> None:
        """Hear of a new disposable."""
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
                self._look(record, self.nbytes)

    def _look(self, record: Record, most: int) -> None:
        moment = self._moment(record)
        if moment is not None:
            headroom = most - moment.alive.nbytes
            if headroom < 0:
                self._too_large = moment
            self._headroom = max(headroom, most * _PART)

    def _moment(self, record: Record) -> Moment | None:
        try:
            return Moment(record, list(self._alive.values()))
        except (AttributeError, RuntimeError):
            return None  # another thread is about to complete or to change something: the next look will do

    def ended(self, record: Record, how: str) -> None:  # noqa: ARG002  # as listeners are called
        """Hear that it was disposed, or that its last reference has gone."""
        self._alive.pop(record.serial, None)

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Hear of a scope that was opened."""

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Hear that a scope has ended."""

    def verdict(self) -> str | None:
        """Return what was wrong, or None."""
        texts = []
        if self.live_count is not None and self._too_many is not None:
            texts.append(
                f"limit_live_tensors allows {self.live_count} tensors at once. At its peak the test had "
                f"{self.live_peak}.\n{self._too_many}"
            )
        if self.nbytes is not None and self._meter is not None:
            # The meter knows no memory of other libraries: of that, what a look found.
            found = 0 if self._too_large is None else self._too_large.alive.nbytes
            peak = max(self._meter.peak_bytes, found)
            if peak > self.nbytes:
                where = self._too_large or (
                    "Tensors and their graphs never held that much: the rest was temporary memory of single "
                    "operations."
                )
                texts.append(
                    f"limit_tensor_memory allows {format_bytes(self.nbytes)} at once. At its peak the test "
                    f"had {format_bytes(peak)}.\n{where}"
                )
        return "\n\n".join(texts) or None
