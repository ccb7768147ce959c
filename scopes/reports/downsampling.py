"""Downsample a timeline to bounded memory: merge short and small events, keep long and large ones.

A timeline keeps samples of memory, spans of scopes, and disposables. If it has too many of one kind,
it merges those within one time interval (the grain). If too many are left, the grain doubles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from heapq import nlargest
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from scopes.tracking.sites import Site

T = TypeVar("T")


class Track:
    """A sequence of events: a thread, or an asyncio task."""

    __slots__ = ("__weakref__", "name", "number", "path")

    def __init__(self, name: str, number: int) -> None:
        self.name: str = name
        self.number: int = number
        # The scopes that are open on this track.
        self.path: tuple[str, ...] = ()


class Sample(NamedTuple):
    """Memory and disposables at one moment; times are values of ``time.perf_counter_ns``."""

    at: int
    #: The live bytes, and the bytes cached in the pool.
    live: int
    cached: int
    #: The number of living disposables.
    alive: int
    #: The open scopes, outermost first.
    path: tuple[str, ...]
    #: The line of the last creation before the sample.
    site: Site | None


class Span:
    """A scope from beginning to end, or several successive scopes."""

    __slots__ = ("begin", "busy", "count", "end", "inside", "path", "track")

    def __init__(self, begin: int, track: Track, path: tuple[str, ...]) -> None:
        self.begin: int = begin
        self.end: int = -1
        self.track: Track = track
        self.path: tuple[str, ...] = path
        # The number of merged scopes, and the sum of their times.
        self.count: int = 1
        self.busy: int = 0
        # The counts of merged scopes with other paths.
        self.inside: Counter[tuple[str, ...]] | None = None

    def close(self, at: int) -> None:
        """End it."""
        self.end = at
        self.busy = at - self.begin

    def absorb(self, other: Span) -> None:
        """Merge `other`, which follows this span or lies inside it."""
        if other.path == self.path:
            self.count += other.count
        else:
            self.inside = self.inside or Counter()
            self.inside[other.path] += other.count
        if other.inside:
            self.inside = self.inside or Counter()
            self.inside.update(other.inside)
            self.count += self.inside.pop(self.path, 0)
        if self.inside and len(self.inside) > _MAX_PATHS:
            self.inside = Counter(dict(self.inside.most_common(_MAX_PATHS)))
        if other.begin >= self.end:
            self.busy += other.busy
        self.end = max(self.end, other.end)


# The number of paths that a merged span counts; the most frequent ones are kept.
_MAX_PATHS = 8


class DisposableEvents:
    """A disposable, or several that one line created on one track within one grain."""

    __slots__ = (
        "closings",
        "count",
        "created_at",
        "ended_at",
        "ended_bytes",
        "ended_count",
        "ended_on",
        "how",
        "is_merged",
        "kind",
        "nbytes",
        "serial",
        "site",
        "track",
    )

    def __init__(self, serial: int, kind: str, site: Site, track: Track, at: int) -> None:
        self.serial: int = serial
        self.kind: str = kind
        self.site: Site = site
        # The track and time of its creation, or of its end if the creation is unknown.
        self.track: Track = track
        self.created_at: int = at
        # The number of scopes that had ended by then.
        self.closings: int = 0
        # The number of merged creations, and of merged ends.
        self.count: int = 0
        self.nbytes: int = 0
        self.ended_count: int = 0
        self.ended_bytes: int = 0
        # The track and time of the last end; -1 before any end.
        self.ended_at: int = -1
        self.ended_on: Track = track
        self.how: str = ""
        # Whether the creations and the ends may be of different disposables.
        self.is_merged: bool = False

    def end(self, nbytes: int, track: Track, at: int, how: str) -> None:
        """Record the end."""
        self.ended_count = 1
        self.ended_bytes = nbytes
        self.ended_at = at
        self.ended_on = track
        self.how = how

    def absorb(self, other: DisposableEvents) -> None:
        """Merge `other`."""
        self.is_merged = True
        self.count += other.count
        self.nbytes += other.nbytes
        self.ended_count += other.ended_count
        self.ended_bytes += other.ended_bytes
        if other.ended_at > self.ended_at:
            self.ended_at = other.ended_at
            self.ended_on = other.ended_on


class Kept:
    """The kept events: at most `most` samples, spans and disposables in total."""

    def __init__(self, most: int) -> None:
        self.begin = 0
        self.samples: list[Sample] = []
        # The open scopes by id, and the ended ones.
        self.open: dict[int, Span] = {}
        self.spans: list[Span] = []
        # The living disposables by serial number, the ended ones, and the merged ones.
        self.alive: dict[int, DisposableEvents] = {}
        self.disposables: list[DisposableEvents] = []
        # The grain of each kind, in ns; 0 before the first merge.
        self.grains: dict[str, int] = {"samples": 0, "scopes": 0, "disposables": 0}
        # The number of dropped events, for which merging left no room.
        self.dropped: Counter[str] = Counter()
        self._most = most

    def __len__(self) -> int:
        return len(self.samples) + len(self.open) + len(self.spans) + len(self.alive) + len(self.disposables)

    def thin(self, now: int) -> None:
        """Merge and drop events until each kind is within its share."""
        if len(self) <= self._most:
            return
        quarter = self._most // 4
        if len(self.samples) > quarter:
            self.samples = self._merge("samples", self.samples, quarter, now, thin_samples, _live_of)
        if len(self.open) > quarter // 2:
            # Open scopes of abandoned tasks and generators.
            for key in list(self.open)[: -quarter // 4]:
                self.dropped["scopes"] += self.open.pop(key).count
        if len(self.spans) > quarter // 2:
            self.spans = self._merge("scopes", self.spans, quarter // 2, now, self._thin_spans, _busy_of)
        if len(self.alive) > quarter:
            large = set(nlargest(quarter // 2, self.alive, key=lambda serial: self.alive[serial].nbytes))
            for serial in [serial for serial in self.alive if serial not in large]:
                disposable = self.alive.pop(serial)
                disposable.is_merged = True
                self.disposables.append(disposable)
        if len(self.disposables) > quarter:
            self.disposables = self._merge(
                "disposables", self.disposables, quarter, now, thin_disposables, _nbytes_of
            )

    def _merge(
        self,
        what: str,
        items: list[T],
        most: int,
        now: int,
        merge: Callable[[list[T], int], list[T]],
        weight: Callable[[T], int],
    ) -> list[T]:
        """Merge `items` with growing grains until half of `most` are left. Drop the lightest if needed."""
        grain = self.grains[what] or max(2 * (now - self.begin) // most, 1)
        while True:
            items = merge(items, grain)
            if len(items) <= most // 2:
                break
            if grain > now - self.begin:
                heaviest = {id(item) for item in nlargest(most // 2, items, key=weight)}
                self.dropped[what] += sum([getattr(x, "count", 1) for x in items if id(x) not in heaviest])
                items = [item for item in items if id(item) in heaviest]
                break
            grain *= 2
        self.grains[what] = grain
        return items

    def _thin_spans(self, spans: list[Span], grain: int) -> list[Span]:
        return thin_spans([*spans, *self.open.values()], grain)


_live_of: Callable[[Sample], int] = attrgetter("live")
_busy_of: Callable[[Span], int] = attrgetter("busy")
_nbytes_of: Callable[[DisposableEvents], int] = attrgetter("nbytes")


def thin_samples(samples: list[Sample], grain: int) -> list[Sample]:
    """Return the highest and the last sample of each grain."""
    kept: list[Sample] = []
    highest = last = samples[0]
    for sample in samples[1:]:
        if sample.at // grain != last.at // grain:
            kept += (highest,) if highest is last else (highest, last)
            highest = sample
        elif sample.live > highest.live:
            highest = sample
        last = sample
    kept += (highest,) if highest is last else (highest, last)
    return kept


def thin_spans(spans: Iterable[Span], grain: int) -> list[Span]:
    """Keep spans of at least one grain. Merge each shorter span into the short span before it, if possible.

    Two short spans merge if they overlap or began in one grain, and no long span began or ended between them.
    Open spans are not returned.
    """
    by_track: dict[int, list[Span]] = {}
    for span in spans:
        by_track.setdefault(span.track.number, []).append(span)
    kept: list[Span] = []
    for track in by_track.values():
        track.sort(key=_order)
        around: list[float] = []  # the ends of the long spans that contain the next one
        run: Span | None = None
        for span in track:
            while around and around[-1] <= span.begin:
                around.pop()
                run = None
            if span.end < 0 or span.end - span.begin >= grain:
                around.append(span.end if span.end >= 0 else float("inf"))
                run = None
                if span.end >= 0:
                    kept.append(span)
            elif run is not None and (span.begin < run.end or span.begin // grain == run.begin // grain):
                run.absorb(span)
            else:
                run = span
                kept.append(span)
    return kept


def _order(span: Span) -> tuple[int, float]:
    return span.begin, -(span.end if span.end >= 0 else float("inf"))


def thin_disposables(disposables: list[DisposableEvents], grain: int) -> list[DisposableEvents]:
    """Keep disposables that lived for at least one grain. Merge the others by line, track and grain."""
    kept: list[DisposableEvents] = []
    merged: dict[tuple[object, ...], DisposableEvents] = {}
    for disposable in disposables:
        if disposable.is_merged or disposable.ended_at - disposable.created_at < grain:
            key = (disposable.site, disposable.track, disposable.count == 0, disposable.created_at // grain)
            first = merged.setdefault(key, disposable)
            if first is not disposable:
                first.absorb(disposable)
                continue
        kept.append(disposable)
    return kept


# Samples within this fraction of a peak's height belong to the peak.
_NEAR = 1 / 32


def peaks(samples: list[Sample], most: int = 3) -> list[Sample]:
    """Return the highest samples of peaks, one for each line, highest first.

    A peak is assigned to the line that brought memory close to its height; later lines added little.
    """
    highest: dict[Site, Sample] = {}
    for cause, top in _plateaus(samples):
        if cause.site is not None and top.live > 0:
            known = highest.get(cause.site)
            if known is None or top.live > known.live:
                highest[cause.site] = top._replace(path=cause.path, site=cause.site)
    return nlargest(most, highest.values(), key=_live_of)


def _plateaus(samples: list[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """Yield each local maximum: the first sample close to its height, and the highest one."""
    if not samples:
        return
    first = top = samples[0]
    rose = True
    for sample in samples[1:]:
        if sample.live > first.live * (1 + _NEAR):
            first = top = sample
            rose = True
        elif sample.live < first.live * (1 - _NEAR):
            if rose:
                yield first, top
            first = top = sample
            rose = False
        else:
            if sample.live > top.live:
                top = sample
            if first.site is None:
                first = sample
    if rose:
        yield first, top
