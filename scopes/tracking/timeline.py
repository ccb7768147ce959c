"""The timeline: what happened while tracking was on, and when, in bounded memory."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from functools import partial
from heapq import nlargest
from itertools import accumulate
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from scopes._statistics import statistics
from scopes.core.guard import Guard
from scopes.tracking import meters, tracking
from scopes.tracking.downsampling import Kept, Sample, Span, Thing, Track
from scopes.tracking.leaks import Snapshot, came_all_along, snapshot
from scopes.tracking.memory_snapshot import Allocations
from scopes.tracking.plots import Growth, draw
from scopes.tracking.trace_events import write

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from types import TracebackType

    from scopes.core.scope import DisposeScope
    from scopes.tracking.records import Record
    from scopes.tracking.sites import Site

# Memory is looked at (10 to 50 us) at most so often, in ns, and after a change by so many bytes and so large
# a part of the most there was: where scopes begin and end, and where more may be live than ever before. So a
# peak is put to the line that caused it.
_PERIOD = 1_000_000
_LARGE_BYTES = 64 * 1024
_LARGE_PART = 32

# So many seconds at most does a thread wait for another one that enters what is new, which the system may
# have stopped for a while. If it is at work for longer, it may be waiting for us: a finalizer that runs in
# it, for a lock that we hold.
_PATIENCE = 10.0

_CREATED, _ENDED, _OPENED, _CLOSED, _SAMPLED = range(5)

_LEAST_EVENTS = 100


class Timeline:
    """Records when scopes begin and end, when disposables are created and disposed, and the memory meanwhile.

    Tracking is on inside its block. Memory is sampled where something happens: at most every millisecond, and
    where more may be live than ever before. What was created before the block is in the memory alone.

    Parameters
    ----------
    max_events
        How much is kept at most, however long the run is: one event takes some 250 bytes. When there are
        more, those that are short and near to each other are merged (10,000 short scopes become one that says
        "step x10000", small disposables one for each line); peaks of memory and what lasts long are kept. The
        file says what was merged. For a moment as many again may wait, where very much ends at once.

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
                f"a Timeline keeps {_LEAST_EVENTS} events or more, not {max_events!r}: write "
                "Timeline(max_events=10_000)"
            )
        self.max_events = max_events
        self._kept = Kept(max_events - max_events // 8)
        # Events that are not in `_kept` yet. Listeners only append, since they also run inside finalizers.
        # An eighth of the events may be theirs. Ends may be as many again: the collector finds many at once,
        # also while somebody enters.
        self._news: deque[tuple[Any, ...]] = deque()
        self._allocations = Allocations(max_events)
        self._enough = min(max_events // 8, 1024)
        self._most_beginnings = max_events // 8
        self._most_ends = max_events
        self._entering = Guard()
        # A thread has waited in vain for the thread that enters events: until that ends, no thread waits.
        self._is_stuck = False
        self._here = threading.local()
        self._tasks: WeakKeyDictionary[Any, Track] = WeakKeyDictionary()
        self._most_tracks = max(max_events // 32, 16)
        self._track_count = 0
        self._common_paths: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._sampling = Guard()
        self._sampled_at = 0
        # The figures of the last look, the highest bytes that were live, and what came and went since.
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
                "this Timeline has begun already, and two recordings in one could not be told apart: make a "
                "new one, `with scopes.Timeline() as another:`"
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
        """Write it as a trace that https://ui.perfetto.dev and chrome://tracing open.

        Scopes are slices, on one track for each thread and each asyncio task; arrows lead from where
        something was created to where it was disposed; counters show the bytes that are live and cached, and
        how many disposables are alive. Inside the block it writes what has happened so far.

        Parameters
        ----------
        path
            The file, which is overwritten; compressed if its name ends in ``.gz``.
        """
        self._entering.run(self._write, path)

    def _write(self, path: str | PathLike[str]) -> None:
        self._enter()
        write(path, self._kept, self._end or time.perf_counter_ns(), self._lost)

    def save_snapshot(self, path: str | PathLike[str]) -> None:
        """Write the allocations as a memory snapshot of PyTorch, for https://pytorch.org/memory_viz.

        The file has the format of ``torch.cuda.memory._dump_snapshot()``. It has the last `max_events`
        allocations and frees of disposables, with the lines that made them. Disposables that share memory
        are one allocation. Addresses are not the real ones.

        Parameters
        ----------
        path
            The file, most often ``"snapshot.pickle"``.

        Raises
        ------
        FileExistsError
            If `path` is there and is no report of this library.

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
        """Draw memory over time, coloured by the scope that was open, peaks numbered with their lines.

        What a line left more and more of is drawn as a leak: the bytes of it that are alive at the end.

        Parameters
        ----------
        path
            An image to write: ``.png``, ``.svg`` or what else matplotlib knows. Without one the figure is
            pyplot's, for ``matplotlib.pyplot.show()``.

        Returns
        -------
        The matplotlib figure.

        Raises
        ------
        ModuleNotFoundError
            If matplotlib is not installed: ``pip install 'disposescope[plot]'``.
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
        """Note a new disposable; called while tracking is on."""
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
        """Note the end of a disposable; called while tracking is on."""
        at = time.perf_counter_ns()
        self._allocations.ended(record, at)
        track = self._track()
        self._note((_ENDED, record, track, at, how), self._most_ends)
        self._change -= record.nbytes
        # Where a last reference goes may be inside anything, also inside the look at memory.
        if record() is not None and at - self._sampled_at >= _PERIOD:
            self._sample(at, track.path or record.scope, None)

    def opened(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Note that a scope begins; called while tracking is on."""
        at = time.perf_counter_ns()
        track = self._track()
        path = self._common(path)
        self._note((_OPENED, id(scope), track, at, path), self._most_beginnings)
        self._mark(at, track, path)

    def closed(self, scope: DisposeScope, path: tuple[str, ...]) -> None:
        """Note that a scope has ended; called while tracking is on."""
        at = time.perf_counter_ns()
        self._note((_CLOSED, id(scope), at), self._most_ends)
        self._mark(at, self._track(), self._common(path[:-1]))

    def _note(self, event: tuple[Any, ...], most: int) -> None:
        if len(self._news) < self._enough or self._makes_room(most):
            self._news.append(event)
        else:
            self._lost += 1

    def _makes_room(self, most: int) -> bool:
        """Enter the news, unless another thread does; tell whether there is room for one more then."""
        news, entering = self._news, self._entering
        if entering.run_if_free(self._enter):
            return True  # what the collector has found meanwhile displaces no other event
        # A beginning may wait for the other thread; an end may not, for the collector may find it inside of
        # anything.
        while len(news) >= most == self._most_beginnings:
            if self._is_stuck or entering.is_held_here():
                return False
            if entering.run_if_free(self._enter, _PATIENCE):
                return True
            self._is_stuck = True
        return len(news) < most

    def _mark(self, at: int, track: Track, path: tuple[str, ...]) -> None:
        """Note that other scopes are open from now on."""
        track.path = path
        change = abs(self._change)
        is_large = change >= _LARGE_BYTES and change * _LARGE_PART >= self._highest
        is_due = is_large or at - self._sampled_at >= _PERIOD
        # The figures of the last look do, also where another thread is at one.
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
        asyncio = sys.modules.get("_asyncio")  # the part that tells, there as soon as anybody uses asyncio
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
        """Enter the news; for `_entering` to run."""
        kept = self._kept
        news = self._news
        for _ in range(len(news)):
            event = news.popleft()
            what = event[0]
            if what == _SAMPLED:
                kept.samples.append(event[1])
            elif what == _CREATED:
                _, record, track = event
                thing = Thing(record.serial, record.kind, record.site, track, record.created_at)
                thing.count, thing.nbytes, thing.closings = 1, record.nbytes, record.closings
                kept.alive[thing.serial] = thing
            elif what == _ENDED:
                self._enter_end(event)
            elif what == _OPENED:
                _, key, track, at, path = event
                self._close(key, at)  # one that was given up, whose id this one has got
                kept.open[key] = Span(at, track, path)
            else:
                self._close(event[1], event[2])
        kept.thin(time.perf_counter_ns())
        self._is_stuck = False

    def _enter_end(self, event: tuple[Any, ...]) -> None:
        _, record, track, at, how = event
        thing = self._kept.alive.pop(record.serial, None)
        if thing is None:
            if record.created_at < self._begin:
                return
            # It was merged meanwhile.
            thing = Thing(record.serial, record.kind, record.site, track, at)
        thing.end(record.nbytes, track, at, how)
        self._kept.things.append(thing)

    def _close(self, key: int, at: int) -> None:
        span = self._kept.open.pop(key, None)
        if span is not None:
            span.close(at)
            self._kept.spans.append(span)

    def _common(self, path: tuple[str, ...]) -> tuple[str, ...]:
        """Return one object for all equal paths."""
        common = self._common_paths
        if len(common) >= 1024:
            common.clear()  # scopes whose names never repeat
        return common.setdefault(path, path)


# So many lines are drawn as leaks at most, and those of which so many are left at least.
_MOST_GROWTHS, _FEWEST = 3, 4


def growths(alive: Iterable[Thing], since: Snapshot, until: Snapshot) -> list[Growth]:
    """Return the lines that left something all along the way, those that left most first."""
    by_site: dict[Site, list[Thing]] = {}
    for thing in list(alive):
        by_site.setdefault(thing.site, []).append(thing)
    found = []
    closings, made = until.closings - since.closings, until.serial - since.serial
    for site, things in by_site.items():
        things.sort(key=lambda thing: thing.created_at)
        if len(things) >= _FEWEST and came_all_along(things, since, closings, made):
            sums = accumulate([thing.nbytes for thing in things])
            found.append(Growth(site, [(x.created_at, n) for x, n in zip(things, sums, strict=True)]))
    return nlargest(_MOST_GROWTHS, found, key=lambda growth: growth.steps[-1][1])


def _thread_name() -> str:
    # Not current_thread(): where a last reference goes, a lock may be held that it takes.
    thread = threading._active.get(get_ident())  # type: ignore[attr-defined]
    return f"thread {get_ident()}" if thread is None else str(thread.name)
