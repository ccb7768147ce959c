"""Write a timeline as trace events, the JSON format of Perfetto and chrome://tracing.

The format is that of "Trace Event Format" (Duffy, Sinclair, 2016): times are in microseconds; ``X`` is a
slice, ``C`` a counter, ``s`` and ``f`` the ends of an arrow between slices, ``i`` a moment, ``M`` a name.
Slices of one track are nested or disjoint.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from itertools import count, pairwise
from operator import itemgetter
from typing import Any, TextIO

from scopes._shared.files import require_ours
from scopes.reports.downsampling import DisposableEvents, Kept, Sample, Span, Track, peaks

Event = dict[str, Any]

# The length in ns of the slice of a creation or disposal, unless the next event is closer.
_MOMENT = 1000


def write(path: str | os.PathLike[str], kept: Kept, end: int, lost: int) -> None:
    """Write the kept events up to `end`; compressed if the name ends in ``.gz``."""
    target = require_ours(path)
    if target.suffix == ".gz":
        with gzip.open(target, "wt", encoding="utf-8") as file:
            _write(file, kept, end, lost)
    else:
        with target.open("w", encoding="utf-8") as file:
            _write(file, kept, end, lost)


def _write(file: TextIO, kept: Kept, end: int, lost: int) -> None:
    about = {
        "recorder": "disposescope",
        "seconds": (end - kept.begin) / 1e9,
        "merged": _merged(kept),
        "dropped": {**kept.dropped, "unseen": lost},
    }
    file.write(f'{{"displayTimeUnit": "ns", "otherData": {json.dumps(about)}, "traceEvents": [\n')
    separator = ""
    for event in _events(kept, end):
        file.write(separator + json.dumps(event))
        separator = ",\n"
    file.write("\n]}\n")


def _merged(kept: Kept) -> dict[str, dict[str, float]]:
    """Return the number of merged events, and the time interval of the merging."""
    scopes = sum([span.count - 1 + sum((span.inside or {}).values()) for span in kept.spans])
    disposables = sum([max(disposable.count, disposable.ended_count) - 1 for disposable in kept.disposables])
    found = {}
    for what, many in (("scopes", scopes), ("disposables", disposables)):
        found[what] = {"count": many, "within_us": kept.grains[what] / 1000}
    found["samples"] = {"within_us": kept.grains["samples"] / 1000}
    return found


def _events(kept: Kept, end: int) -> Iterator[Event]:
    process = os.getpid()
    tracks: dict[Track, list[tuple[int, int, Event]]] = {}
    for span in [*kept.spans, *kept.open.values()]:
        slice_ = _slice_of(span, end)
        tracks.setdefault(span.track, []).append((span.begin, slice_.pop("end"), slice_))
    for disposable in [*kept.disposables, *kept.alive.values()]:
        for track, at, event in _moments_of(disposable):
            tracks.setdefault(track, []).append((at, at, event))
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "dispose scopes"}}
    numbers = count(max([track.number for track in tracks], default=0) + 1)
    for track in sorted(tracks, key=lambda track: track.number):
        for lane, slices in enumerate(_lanes(tracks[track])):
            place = {"pid": process, "tid": next(numbers) if lane else track.number}
            name = f"{track.name}, {lane + 1}" if lane else track.name
            yield {"ph": "M", "name": "thread_name", **place, "args": {"name": name}}
            yield {"ph": "M", "name": "thread_sort_index", **place, "args": {"sort_index": track.number}}
            yield from _in_place(slices, place, kept.begin)
    yield from _counters(sorted(kept.samples, key=itemgetter(0)), process, kept.begin)


def _slice_of(span: Span, end: int) -> Event:
    name = span.path[-1] if span.count == 1 else f"{span.path[-1]} x{span.count}"
    args: Event = {"path": " > ".join(span.path)}
    if span.count > 1 or span.inside:
        args["count"], args["busy_us"] = span.count, span.busy / 1000
    if span.inside:
        depth = len(span.path)
        more = [f"{path[-1]} x{n}" for path, n in span.inside.items() if len(path) == depth]
        name = ", ".join([name, *more])
        args["merged"] = {" > ".join(path): n for path, n in span.inside.items()}
    if span.end < 0:
        args["open"] = True
    return {"name": name, "cat": "scope", "args": args, "end": end if span.end < 0 else span.end}


def _moments_of(disposable: DisposableEvents) -> Iterator[tuple[Track, int, Event]]:
    """Yield the creation and the disposal, with the end of an arrow under ``"flow"``."""
    moments = (
        ("create", "s", disposable.track, disposable.created_at, disposable.count, disposable.nbytes),
        (
            "dispose",
            "f",
            disposable.ended_on,
            disposable.ended_at,
            disposable.ended_count,
            disposable.ended_bytes,
        ),
    )
    is_followed = not disposable.is_merged and disposable.count == disposable.ended_count
    for what, step, track, at, many, nbytes in moments:
        if many == 0:
            continue
        name = f"{what} {disposable.kind}" if many == 1 else f"{what} {disposable.kind} x{many}"
        args: Event = {"line": str(disposable.site), "bytes": nbytes, "count": many}
        if what == "dispose" and not disposable.is_merged:
            args["how"] = disposable.how
        event: Event = {"name": name, "cat": what, "args": args}
        if is_followed:
            event["flow"] = (step, disposable.serial)
        yield track, at, event


def _lanes(items: list[tuple[int, int, Event]]) -> list[list[tuple[int, int, Event]]]:
    """Distribute overlapping slices over lanes: scopes need not end in order."""
    items.sort(key=lambda item: (item[0], -item[1]))
    lanes: list[list[tuple[int, int, Event]]] = []
    open_ends: list[list[int]] = []
    for item in items:
        begin, end, _ = item
        for lane, ends in zip(lanes, open_ends, strict=True):  # noqa: B007  # used below
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or end <= ends[-1]:
                break
        else:
            lane, ends = [], []
            lanes.append(lane)
            open_ends.append(ends)
        lane.append(item)
        ends.append(end)
    return lanes


def _in_place(items: list[tuple[int, int, Event]], place: Event, start: int) -> Iterator[Event]:
    """Yield the slices of one track in order, and give moments a length."""
    marks = sorted({mark for begin, end, _ in items for mark in (begin, end)})
    following = dict(pairwise(marks))
    for begin, end, event in items:
        flow = event.pop("flow", None)
        last = end if end > begin else min(begin + _MOMENT, following.get(begin, begin + _MOMENT))
        at = (begin - start) / 1000
        yield {"ph": "X", **event, "ts": at, "dur": (last - begin) / 1000, **place}
        if flow is not None:
            step, serial = flow
            arrow = {"ph": step, "name": "lifetime", "cat": "lifetime", "id": serial, "ts": at, **place}
            yield arrow | {"bp": "e"} if step == "f" else arrow


def _counters(samples: list[Sample], process: int, start: int) -> Iterator[Event]:
    written: object = None
    for place, sample in enumerate(samples, 1):
        figures = (sample.live, sample.cached, sample.alive)
        if figures == written and place < len(samples):
            continue
        written = figures
        at = {"ts": (sample.at - start) / 1000, "pid": process, "tid": 0}
        yield {"ph": "C", "name": "bytes", **at, "args": {"live": sample.live, "cached": sample.cached}}
        yield {"ph": "C", "name": "disposables", **at, "args": {"live": sample.alive}}
    for peak in sorted(peaks(samples), key=itemgetter(0)):
        at = {"ts": (peak.at - start) / 1000, "pid": process, "tid": 0}
        args = {"line": str(peak.site), "bytes": peak.live, "path": " > ".join(peak.path)}
        yield {"ph": "i", "name": f"peak of {peak.live:,} bytes", "cat": "peak", "s": "p", **at, "args": args}
