"""Random timelines are merged as simple models say, which look at all pairs of events."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from scopes import Site
from scopes.reports.downsampling import (
    DisposableEvents,
    Kept,
    Sample,
    Span,
    Track,
    peaks,
    thin_disposables,
    thin_samples,
    thin_spans,
)

SEEDS = range(60)
PATHS = [("a",), ("b",), ("a", "in"), ("b", "in"), ("c",)]


def random_spans(draw: random.Random, tracks: list[Track], paths: list[tuple[str, ...]]) -> list[Span]:
    """Return nested spans on several tracks, the ended ones in order of their ends, at different times."""
    spans: list[Span] = []
    times = {track.number: track.number for track in tracks}
    opened: dict[int, list[Span]] = {track.number: [] for track in tracks}
    for _ in range(draw.randrange(2, 60)):
        track = draw.choice(tracks)
        at = times[track.number] = times[track.number] + len(tracks) * draw.choice([1, 1, 2, 5, 30])
        here = opened[track.number]
        if here and draw.random() < 0.55:
            span = here.pop()
            span.close(at)
            spans.append(span)
        else:
            here.append(Span(at, track, draw.choice(paths)))
    # The rest stays open.
    return spans + [span for rest in opened.values() for span in rest]


def is_long(span: Span, grain: int) -> bool:
    return span.end < 0 or span.end - span.begin >= grain


def merged_model(spans: list[Span], grain: int) -> Iterator[list[Span]]:
    """Yield each long ended span alone, and the groups of short ones that become one span."""
    for track in {span.track for span in spans}:
        mine = sorted([span for span in spans if span.track is track], key=lambda span: span.begin)
        long = [span for span in mine if is_long(span, grain)]
        yield from ([span] for span in long if span.end >= 0)
        group: list[Span] = []
        for span in mine:
            if span in long:
                continue
            edges = [at for other in long for at in (other.begin, other.end)]
            is_parted = not group or any(group[-1].begin < at <= span.begin for at in edges)
            overlaps = bool(group) and span.begin < max(each.end for each in group)
            if is_parted or not (overlaps or span.begin // grain == group[0].begin // grain):
                if group:
                    yield group
                group = []
            group.append(span)
        if group:
            yield group


def figures_of(group: list[Span]) -> tuple[object, ...]:
    """Return what is known of the span that `group` becomes."""
    first, end, busy = group[0], group[0].end, group[0].busy
    for span in group[1:]:
        busy += span.busy if span.begin >= end else 0
        end = max(end, span.end)
    counts = Counter(span.path for span in group)
    return first.track.number, first.begin, end, busy, first.path, counts


def counts_of(span: Span) -> Counter[tuple[str, ...]]:
    return Counter({span.path: span.count}) + (span.inside or Counter())


@pytest.mark.parametrize("seed", SEEDS)
def test_short_scopes_merge_as_in_the_model(seed: int) -> None:
    draw = random.Random(seed)
    tracks = [Track(f"track {number}", number) for number in range(1, draw.randrange(2, 4))]
    spans = random_spans(draw, tracks, PATHS)
    grain = draw.choice([2, 7, 20, 60])
    expected = sorted((figures_of(group) for group in merged_model(spans, grain)), key=repr)
    draw.shuffle(spans)
    found = [(s.track.number, s.begin, s.end, s.busy, s.path, counts_of(s)) for s in thin_spans(spans, grain)]
    assert sorted(found, key=repr) == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_scopes_merged_twice_are_counted_as_those_merged_once(seed: int) -> None:
    draw = random.Random(seed)
    spans = random_spans(draw, [Track("main", 1)], PATHS)
    closed = [span for span in spans if span.end >= 0]
    expected = Counter(span.path for span in closed)
    once = thin_spans(spans, 4)
    twice = thin_spans([*once, *(span for span in spans if span.end < 0)], 40)
    assert sum((counts_of(span) for span in twice), Counter()) == expected
    assert len(twice) <= len(once) <= len(closed)


def test_a_merged_scope_names_the_eight_most_frequent_paths_in_it() -> None:
    track = Track("main", 1)
    first = Span(0, track, ("first",))
    first.close(1)
    for at, count in enumerate([5, 1, 9, 3, 8, 2, 7, 4], 1):
        other = Span(at, track, (f"{count} times",))
        other.count = count
        other.close(at + 1)
        first.absorb(other)
    assert first.inside is not None
    assert sorted(first.inside.values()) == [1, 2, 3, 4, 5, 7, 8, 9]
    other = Span(9, track, ("6 times",))
    other.count = 6
    other.close(10)
    first.absorb(other)
    assert sorted(first.inside.values()) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert first.inside["6 times",] == 6


def random_disposables(draw: random.Random, sites: list[Site], tracks: list[Track]) -> list[DisposableEvents]:
    made = []
    for serial in range(draw.randrange(1, 60)):
        disposable = DisposableEvents(
            serial, "Thing", draw.choice(sites), draw.choice(tracks), draw.randrange(200)
        )
        if draw.random() < 0.85:  # otherwise the creation was merged earlier
            disposable.count, disposable.nbytes = 1, draw.randrange(1000)
        if draw.random() < 0.8 or not disposable.count:
            at = disposable.created_at + draw.choice([0, 1, 5, 19, 20, 21, 80])
            disposable.end(draw.randrange(1000), draw.choice(tracks), at, "deleted")
        else:
            disposable.is_merged = True
        made.append(disposable)
    return made


@pytest.mark.parametrize("seed", SEEDS)
def test_short_disposables_merge_by_line_track_and_grain(seed: int) -> None:
    draw = random.Random(seed)
    tracks = [Track("one", 1), Track("two", 2)]
    given = random_disposables(draw, [Site(()), Site(())], tracks)
    grain = 20
    groups: dict[object, list[DisposableEvents]] = {}
    for disposable in given:
        is_short = disposable.is_merged or disposable.ended_at - disposable.created_at < grain
        key = (id(disposable.site), disposable.track, disposable.count == 0, disposable.created_at // grain)
        groups.setdefault(key if is_short else disposable.serial, []).append(disposable)
    expected = []
    for group in groups.values():
        last = max(group, key=lambda each: each.ended_at)
        expected.append(
            (
                group[0].serial,
                sum(each.count for each in group),
                sum(each.nbytes for each in group),
                sum(each.ended_count for each in group),
                sum(each.ended_bytes for each in group),
                last.ended_at,
                len(group) > 1 or group[0].is_merged,
                last.ended_on.name,
            )
        )
    found = [
        (
            each.serial,
            each.count,
            each.nbytes,
            each.ended_count,
            each.ended_bytes,
            each.ended_at,
            each.is_merged,
            each.ended_on.name,
        )
        for each in thin_disposables(given, grain)
    ]
    assert found == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_of_each_grain_the_highest_and_the_last_sample_stay(seed: int) -> None:
    draw = random.Random(seed)
    times = sorted(draw.sample(range(200), draw.randrange(1, 60)))
    samples = [Sample(at, draw.randrange(10), 0, 0, (), None) for at in times]
    grain = draw.choice([1, 3, 10, 50, 300])
    expected = set()
    for number in {at // grain for at in times}:
        group = [sample for sample in samples if sample.at // grain == number]
        expected |= {max(group, key=lambda sample: sample.live), group[-1]}
    assert thin_samples(samples, grain) == sorted(expected, key=lambda sample: sample.at)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_kept_stays_within_its_share_and_nothing_is_lost_uncounted(seed: int) -> None:
    draw = random.Random(seed)
    most = draw.choice([96, 200])
    kept = Kept(most)
    track, site = Track("main", 1), Site(())
    made: Counter[str] = Counter()
    highest = 0
    now = 0
    for _ in range(draw.randrange(1, 6) * most):
        now += draw.choice([1, 3, 1000])
        match draw.randrange(3):
            case 0:
                live = draw.randrange(1_000_000)
                highest = max(highest, live)
                kept.samples.append(Sample(now, live, 0, 0, (), site))
                made["samples"] += 1
            case 1:
                # Each on a track of its own cannot merge, so some must be dropped.
                own = track if draw.random() < 0.5 else Track("own", 2 + made["scopes"])
                span = Span(now, own, ("step",))
                made["scopes"] += 1
                if draw.random() < 0.05:
                    kept.open[made["scopes"]] = span
                else:
                    span.close(now + draw.choice([1, 2000]))
                    kept.spans.append(span)
            case _:
                disposable = DisposableEvents(made["disposables"], "Thing", site, track, now)
                disposable.count, disposable.nbytes = 1, draw.randrange(1000)
                made["disposables"] += 1
                if draw.random() < 0.5:
                    kept.alive[disposable.serial] = disposable
                else:
                    disposable.end(disposable.nbytes, track, now + draw.choice([0, 5000]), "deleted")
                    kept.disposables.append(disposable)
        before = len(kept)
        kept.thin(now)
        if before <= most:
            assert len(kept) == before
        assert len(kept) <= most
    assert max(sample.live for sample in kept.samples) == highest
    scopes = sum(span.count for span in [*kept.spans, *kept.open.values()])
    assert scopes + kept.dropped["scopes"] == made["scopes"]
    disposables = sum(each.count for each in [*kept.disposables, *kept.alive.values()])
    assert disposables + kept.dropped["disposables"] == made["disposables"]
    assert kept.dropped["samples"] == 0
    assert all(each.count == 1 and not each.is_merged for each in kept.alive.values())


def test_of_too_many_living_disposables_the_largest_stay_apart() -> None:
    kept = Kept(100)
    track, site = Track("main", 1), Site(())
    for serial in range(101):
        disposable = DisposableEvents(serial, "Thing", site, track, serial)
        disposable.count, disposable.nbytes = 1, 1000 + (serial * 37) % 101
        kept.alive[serial] = disposable
    kept.thin(200)
    assert sorted(each.nbytes for each in kept.alive.values()) == list(range(1089, 1101))
    assert sum(each.count for each in kept.disposables) == 101 - 12
    assert sum(each.nbytes for each in kept.disposables) == sum(range(1000, 1089))


def test_as_many_of_a_kind_as_its_share_stay_apart() -> None:
    kept = Kept(100)
    track, site = Track("main", 1), Site(())
    kept.samples = [Sample(at, at, 0, 0, (), site) for at in range(100)]
    for serial in range(25):
        disposable = DisposableEvents(serial, "Thing", site, track, serial)
        disposable.count = 1
        kept.alive[serial] = disposable
        ended = DisposableEvents(100 + serial, "Thing", site, track, serial)
        ended.count = 1
        ended.end(0, track, serial, "deleted")
        kept.disposables.append(ended)
    for number in range(12):
        kept.open[number] = Span(number, track, ("open",))
        span = Span(number, track, ("step",))
        span.close(number)
        kept.spans.append(span)
    kept.thin(200)
    assert (len(kept.alive), len(kept.disposables), len(kept.open), len(kept.spans)) == (25, 25, 12, 12)
    assert len(kept.samples) <= 12


def test_of_too_many_open_scopes_the_newest_stay() -> None:
    kept = Kept(100)
    for number in range(101):
        kept.open[number] = Span(number, Track("own", number), ("open",))
    kept.thin(200)
    assert list(kept.open) == list(range(94, 101))
    assert kept.dropped == {"scopes": 94}


def test_of_scopes_that_cannot_merge_the_busiest_stay() -> None:
    kept = Kept(100)
    for number in range(101):
        span = Span(number, Track("own", number), ("step",))
        span.close(number + 1 + (number * 37) % 101)
        kept.spans.append(span)
    kept.thin(200)
    assert sorted(span.busy for span in kept.spans) == list(range(96, 102))
    assert kept.dropped == {"scopes": 95}


def peaks_of_model(samples: list[Sample]) -> list[tuple[int, Site]]:
    """Return the heights and the lines of the three highest peaks of samples whose heights are far apart."""
    lives = [sample.live for sample in samples]
    found: dict[Site, int] = {}
    for i, sample in enumerate(samples):
        rises = i == 0 or lives[i - 1] < lives[i]
        falls = i + 1 == len(lives) or lives[i + 1] < lives[i]
        if rises and falls and sample.site is not None and sample.live:
            found[sample.site] = max(found.get(sample.site, 0), sample.live)
    return sorted([(live, site) for site, live in found.items()], key=lambda item: -item[0])[:3]


@pytest.mark.parametrize("seed", SEEDS)
def test_peaks_are_the_highest_local_maxima_of_each_line(seed: int) -> None:
    draw = random.Random(seed)
    sites = [Site(()) for _ in range(5)]
    # No two heights are within a thirty-second of each other.
    heights = draw.sample([0, *(int(1000 * 1.1**n) for n in range(60))], draw.randrange(1, 40))
    samples = [Sample(at, live, 0, 0, (), draw.choice(sites)) for at, live in enumerate(heights)]
    assert [(peak.live, peak.site) for peak in peaks(samples)] == peaks_of_model(samples)
