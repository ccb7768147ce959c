"""Timeline: records the events of tracking with their times, in bounded memory."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from functools import partial
from heapq import nlargest
from itertools import accumulate
from threading import get_ident
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from scopes._shared.guard import Guard
from scopes._shared.naming import set_module
from scopes.core.statistics import statistics
from scopes.reports.downsampling import DisposableEvents, Kept, Sample, Span, Track
from scopes.reports.leaks import Snapshot, is_created_throughout, snapshot
from scopes.reports.memory_snapshot import Allocations
from scopes.reports.plots import Growth, draw
from scopes.reports.trace_events import write
from scopes.tracking import meters, tracking
from scopes.tracking.records import Record
from scopes.tracking.sites import Site

if TYPE_CHECKING:
    from os import PathLike

    from scopes.core.scope import DisposeScope

# Sampling memory takes 10 to 50 us. An event takes a sample if the last is older than this period (ns). A
# scope that begins or ends also takes one after a large change: these bytes and 1 / _LARGE_PART of the peak.
# A creation does only if live memory may reach a new peak, to assign the peak to the line that caused it.
_PERIOD = 1_000_000
_LARGE_BYTES = 64 * 1024
_LARGE_PART = 32

# The most seconds that a thread waits for another thread that runs `_enter`. The system may have suspended
# that thread. Or that thread waits for this one, because a finalizer needs a lock that this one holds.
_MAX_WAIT = 10.0

_CREATED, _ENDED, _OPENED, _CLOSED, _SAMPLED = range(5)

_LEAST_EVENTS = 100


@set_module("scopes")
class Timeline:
    """Recorder of scopes, creations, disposals and memory over time.

    Tracking is on inside its block. Memory is sampled at events: at most every millisecond, and after large
    changes. Disposables created before the block only count in the memory.

    Parameters
    ----------
    max_events
        The most events to keep; one event takes about 250 bytes. When there are more, short events that are
        close in time are merged: 10,000 short scopes become one "step x10000", and small disposables one for
        each line. Peaks of memory and long events are kept. The file gives the number of merged events. If
        very many objects end at once, up to twice as many events exist for a moment.

    Raises
    ------
    ValueError
        If `max_events` is below 100.

    Examples
    --------
    >>> import scopes, tempfile, tensor
    >>> with scopes.Timeline() as timeline:
    ...     with scopes.new_dispose_scope("step"):
    ...         y = tensor.ones((1000,)) * 2
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     timeline.save(f"{folder}/trace.json.gz")
    """

    def __init__(self, max_events: int = 100_000) -> None:
        if max_events < _LEAST_EVENTS:
            raise ValueError(
                f"max_events must be at least {_LEAST_EVENTS}, not {max_events!r}: write "
                "Timeline(max_events=10_000)"
            )
        self.max_events = max_events
        self._kept = Kept(max_events - max_events // 8)
        # Events that are not in `_kept` yet. Listeners only append, because they also run inside finalizers.
        # New events may be an eighth of all events. Ends may reach `max_events`, because the collector can
        # end many objects at once, also while a thread runs `_enter`.
        self._new_events: deque[tuple[Any, ...]] = deque()
        self._allocations = Allocations(max_events)
        self._batch = min(max_events // 8, 1024)
        self._most_beginnings = max_events // 8
        self._most_ends = max_events
        self._entering = Guard()
        # Whether a thread has waited _MAX_WAIT for the thread that runs `_enter`. Until `_enter` returns, no
        # other thread waits.
        self._is_stuck = False
        self._here = threading.local()
        self._tasks: WeakKeyDictionary[Any, Track] = WeakKeyDictionary()
        self._most_tracks = max(max_events // 32, 16)
        self._track_count = 0
        self._common_paths: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._sampling = Guard()
        self._sampled_at = 0
        # The values of the last sample, the peak of live bytes, and the change since the sample.
        self._live = 0
        self._cached = 0
        self._alive = 0
        self._highest = 0
        self._change = 0
        self._lost = 0
        self._begin = 0
        self._end = 0
        self._first = self._last = Snapshot(0, {})

    def __enter__(self) -> Self:
        if self._begin:
            raise RuntimeError(
                "this Timeline has begun already, and it records only once: write "
                "`with scopes.Timeline() as another:`"
            )
        self._begin = self._kept.begin = time.perf_counter_ns()
        self._tracker = tracking.begin()
        self._first = snapshot()
        tracking.guard.run(self._listen, True)
        self._sample(self._begin, (), None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._sample(time.perf_counter_ns(), (), None)
        finally:
            tracking.guard.run(self._listen, False)
            self._last = snapshot()
            del self._tracker
            self._end = time.perf_counter_ns()
            tracking.end()
            self._entering.run(self._enter)

    def _listen(self, is_on: bool) -> None:
        tracker = self._tracker
        others = tuple([each for each in tracker.listeners if each is not self])
        tracker.listeners = (*others, self) if is_on else others

    def save(self, path: str | PathLike[str]) -> None:
        """Write the timeline as a trace for https://ui.perfetto.dev or chrome://tracing.

        Scopes are slices, on one track for each thread and each asyncio task. Arrows lead from creations to
        disposals. Counters show the live and cached bytes, and the number of living disposables. Inside the
        block it writes the events so far.

        Parameters
        ----------
        path
            The file to write or overwrite. It is compressed if its name ends in ``.gz``.
        """
        self._entering.run(self._write, path)

    def _write(self, path: str | PathLike[str]) -> None:
        self._enter()
        write(path, self._kept, self._end or time.perf_counter_ns(), self._lost)

    def save_snapshot(self, path: str | PathLike[str]) -> None:
        """Write the allocations as a memory snapshot of PyTorch, for https://pytorch.org/memory_viz.

        The file has the format of ``torch.cuda.memory._dump_snapshot()``. It contains the last `max_events`
        allocations and frees of disposables, with their creation lines. Disposables that share memory are one
        allocation. Addresses are not the real ones.

        Parameters
        ----------
        path
            The file, usually ``"snapshot.pickle"``.

        Raises
        ------
        FileExistsError
            If `path` exists and is not a report of this library.

        Examples
        --------
        >>> import pickle, scopes, tempfile, tensor
        >>> from pathlib import Path
        >>> with scopes.Timeline() as timeline:
        ...     x = tensor.ones((1000,))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     timeline.save_snapshot(f"{folder}/snapshot.pickle")
        ...     snapshot = pickle.loads(Path(folder, "snapshot.pickle").read_bytes())
        >>> [(event["action"], event["size"]) for event in snapshot["device_traces"][0]]
        [('alloc', 4000)]
        """
        self._allocations.save(path)

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Plot memory over time, coloured by the open scope, with numbered peaks and their lines.

        For each line that leaks, it draws the bytes that are alive at the end.

        Parameters
        ----------
        path
            The image file: ``.png``, ``.svg`` or another format of matplotlib. Without a path, the figure
            belongs to pyplot, for ``matplotlib.pyplot.show()``.

        Returns
        -------
        The matplotlib figure.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed: ``pip install '.[plot]'`` in a clone.
        """
        return draw(*self._entering.run(self._drawn), path)

    def _drawn(self) -> tuple[list[Sample], list[Growth]]:
        self._enter()
        is_under_way = self._begin and not self._end
        until = snapshot() if is_under_way else self._last
        return list(self._kept.samples), growths(self._kept.alive.values(), self._first, until)

    def __repr__(self) -> str:
        if not self._begin:
            return "<Timeline: not begun>"
        kept = self._entering.run(self._count)
        seconds = ((self._end or time.perf_counter_ns()) - self._begin) / 1e9
        return f"<Timeline: {seconds:.3f} s, {kept:,} of at most {self.max_events:,} events>"

    def _count(self) -> int:
        self._enter()
        return len(self._kept)

    def created(self, record: Record) -> None:
        """Note a new disposable."""
        self._allocations.created(record)
        track = self._track()
        self._note((_CREATED, record, track), self._most_beginnings)
        change = self._change = self._change + record.nbytes
        at = record.created_at
        if at - self._sampled_at >= _PERIOD or (
            change >= _LARGE_BYTES
            and change * _LARGE_PART >= self._highest
            and self._live + change > self._highest
        ):
            self._sample(at, record.scope or track.path, record)

    def ended(self, record: Record, how: str) -> None:
        """Note the end of a disposable."""
        at = time.perf_counter_ns()
        self._allocations.ended(record, at)
        track = self._track()
        self._note((_ENDED, record, track, at, how), self._most_ends)
        self._change -= record.nbytes
        # If the last reference was deleted, this may run inside any call, also inside a sample: take none.
        if record() is not None and at - self._sampled_at >= _PERIOD:
            self._sample(at, track.path or record.scope, None)

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Note that a scope begins."""
        at = time.perf_counter_ns()
        track = self._track()
        path = self._common(path)
        self._note((_OPENED, id(scope), track, at, path), self._most_beginnings)
        self._mark(at, track, path)

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Note that a scope has ended."""
        at = time.perf_counter_ns()
        self._note((_CLOSED, id(scope), at), self._most_ends)
        self._mark(at, self._track(), self._common(path[:-1]))

    def _note(self, event: tuple[Any, ...], most: int) -> None:
        if len(self._new_events) < self._batch or self._make_room(most):
            self._new_events.append(event)
        else:
            self._lost += 1

    def _make_room(self, most: int) -> bool:
        """Run `_enter` unless another thread runs it, and return whether one more event fits."""
        news, entering = self._new_events, self._entering
        if entering.run_if_free(self._enter):
            return True  # one more fits, even if the collector has added ends meanwhile
        # The beginning of a scope or disposable may wait for the other thread. An end may not, because the
        # collector may cause an end inside any call.
        while len(news) >= most == self._most_beginnings:
            if self._is_stuck or entering.is_held_here():
                return False
            if entering.run_if_free(self._enter, _MAX_WAIT):
                return True
            self._is_stuck = True
        return len(news) < most

    def _mark(self, at: int, track: Track, path: tuple[str, ...]) -> None:
        """Record the open scopes of a track, and sample memory if it is time."""
        track.path = path
        change = abs(self._change)
        is_large = change >= _LARGE_BYTES and change * _LARGE_PART >= self._highest
        is_due = is_large or at - self._sampled_at >= _PERIOD
        # Use the values of the last sample, also while another thread takes one.
        if not (is_due and self._sample(at, path, None)):
            sample = Sample(at, self._live, self._cached, self._alive, path, None)
            self._note((_SAMPLED, sample), self._most_beginnings)

    def _sample(self, at: int, path: tuple[str, ...], after: Record | None) -> bool:
        return self._sampling.run_if_free(partial(self._take_sample, at, path, after))

    def _take_sample(self, at: int, path: tuple[str, ...], after: Record | None) -> None:
        self._sampled_at = at
        self._change = 0
        live, cached = self._tracker.foreign.bytes_alive, 0
        for figures in meters.memory_figures:
            more_live, more_cached = figures()
            live += more_live
            cached += more_cached
        self._live, self._cached, self._alive = live, cached, statistics.live_count
        self._highest = max(self._highest, live)
        site = None if after is None else after.site
        sample = Sample(at, live, cached, self._alive, path, site)
        self._note((_SAMPLED, sample), self._most_beginnings)

    def _track(self) -> Track:
        asyncio = sys.modules.get("_asyncio")  # loaded as soon as the program uses asyncio
        if asyncio is not None:
            loop = asyncio._get_running_loop()
            task = None if loop is None else sys.modules["asyncio"].current_task(loop)
            if task is not None:
                track = self._tasks.get(task)
                return self._track_of_task(task) if track is None else track
        try:
            thread: Track = self._here.track
        except AttributeError:
            thread = self._here.track = self._new_track(_thread_name())
        return thread

    def _track_of_task(self, task: Any) -> Track:
        if self._track_count < self._most_tracks:
            track = self._new_track(f"{task.get_name()} ({_thread_name()})")
        else:
            try:
                track = self._here.tasks
            except AttributeError:
                track = self._here.tasks = self._new_track(f"more tasks ({_thread_name()})")
        self._tasks[task] = track
        return track

    def _new_track(self, name: str) -> Track:
        self._track_count += 1
        return Track(name, self._track_count)

    def _enter(self) -> None:
        """Move the new events into `_kept`. Only the guard `_entering` runs this."""
        kept = self._kept
        news = self._new_events
        for _ in range(len(news)):
            event = news.popleft()
            what = event[0]
            if what == _SAMPLED:
                kept.samples.append(event[1])
            elif what == _CREATED:
                _, record, track = event
                disposable = DisposableEvents(
                    record.serial, record.kind, record.site, track, record.created_at
                )
                disposable.count, disposable.nbytes, disposable.closings = 1, record.nbytes, record.closings
                kept.alive[disposable.serial] = disposable
            elif what == _ENDED:
                self._enter_end(event)
            elif what == _OPENED:
                _, key, track, at, path = event
                self._close(key, at)  # an abandoned scope, whose id was reused
                kept.open[key] = Span(at, track, path)
            else:
                self._close(event[1], event[2])
        kept.thin(time.perf_counter_ns())
        self._is_stuck = False

    def _enter_end(self, event: tuple[Any, ...]) -> None:
        _, record, track, at, how = event
        disposable = self._kept.alive.pop(record.serial, None)
        if disposable is None:
            if record.created_at < self._begin:
                return
            # The creation was merged meanwhile.
            disposable = DisposableEvents(record.serial, record.kind, record.site, track, at)
        disposable.end(record.nbytes, track, at, how)
        self._kept.disposables.append(disposable)

    def _close(self, key: int, at: int) -> None:
        span = self._kept.open.pop(key, None)
        if span is not None:
            span.close(at)
            self._kept.spans.append(span)

    def _common(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return one object for all equal paths."""
        common = self._common_paths
        if len(common) >= 1024:
            common.clear()  # nearly no path repeats
        return common.setdefault(path, path)


# The most lines drawn as leaks, and the fewest living disposables of such a line.
_MAX_GROWTHS, _FEWEST = 3, 4


def growths(alive: Iterable[DisposableEvents], since: Snapshot, until: Snapshot) -> list[Growth]:
    """Return the lines whose living disposables were created throughout, largest first."""
    by_site: dict[Site, list[DisposableEvents]] = {}
    for disposable in list(alive):
        by_site.setdefault(disposable.site, []).append(disposable)
    found = []
    closings, made = until.closings - since.closings, until.serial - since.serial
    for site, disposables in by_site.items():
        disposables.sort(key=lambda disposable: disposable.created_at)
        if len(disposables) >= _FEWEST and is_created_throughout(disposables, since, closings, made):
            sums = accumulate([disposable.nbytes for disposable in disposables])
            found.append(Growth(site, [(x.created_at, n) for x, n in zip(disposables, sums, strict=True)]))
    return nlargest(_MAX_GROWTHS, found, key=lambda growth: growth.steps[-1][1])


def _thread_name() -> str:
    # Not current_thread(): it takes a lock, which this thread may hold when a last reference is deleted.
    thread = threading._active.get(get_ident())  # type: ignore[attr-defined]
    return f"thread {get_ident()}" if thread is None else str(thread.name)
