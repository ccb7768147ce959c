"""Timelines of disposables that are no tensors: what is recorded, where it is written, what is merged."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import tracemalloc
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import scopes
from scopes import Timeline, is_tracking, new_dispose_scope
from scopes._shared.guard import Guard
from scopes.lowlevel import measure_memory_by
from scopes.reports import timeline as timelines
from scopes.reports.downsampling import Sample, Span, Track, peaks, thin_samples, thin_spans
from scopes.tracking import meters, tracking
from tests.things import Thing
from tests.traces import Trace


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[object]:
    def read(timeline: Timeline, name: str = "trace.json") -> Trace:
        timeline.save(tmp_path / name)
        return Trace(tmp_path / name)

    return read


def test_scopes_are_nested_slices_that_contain_their_events(trace) -> None:
    with Timeline() as timeline:
        with new_dispose_scope("epoch"):
            with new_dispose_scope("step"):
                Thing(8)
            kept = Thing(16)
    found = trace(timeline)
    assert [event["args"]["path"] for event in found.scopes()] == ["epoch", "epoch > step"]
    created, disposed = found.moments("create"), found.moments("dispose")
    assert [(event["name"], event["args"]["bytes"]) for event in created] == [
        ("create Thing", 8),
        ("create Thing", 16),
    ]
    assert not kept.whole
    assert disposed[0]["args"]["how"] == "its last reference was deleted"
    assert "epoch" in disposed[1]["args"]["how"]
    assert created[0]["args"]["line"].startswith("tests/things.py:")


def test_an_arrow_leads_from_each_creation_to_its_disposal_and_none_from_live_objects(trace) -> None:
    with Timeline() as timeline:
        Thing()
        kept = Thing()
    found = trace(timeline)
    assert kept.whole
    assert len(found.of("s")) == len(found.of("f")) == 1
    assert found.of("s")[0]["ts"] == found.moments("create")[0]["ts"]
    assert found.of("f")[0]["ts"] == found.moments("dispose")[0]["ts"]


def test_each_thread_has_a_track_of_its_name(trace) -> None:
    def work() -> None:
        with new_dispose_scope("work"):
            Thing()

    with Timeline() as timeline:
        for number in range(3):
            thread = threading.Thread(target=work, name=f"worker {number}")
            thread.start()
            thread.join()
    found = trace(timeline)
    # Idents are used again, tracks are not.
    assert [found.thread_of(event) for event in found.scopes()] == ["worker 0", "worker 1", "worker 2"]


def test_each_task_has_a_track_and_scopes_that_interleave_nest_in_it(trace) -> None:
    async def fetch() -> None:
        with new_dispose_scope("fetch"):
            await asyncio.sleep(0)
            with new_dispose_scope("decode"):
                Thing()
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(asyncio.create_task(fetch(), name="a"), asyncio.create_task(fetch(), name="b"))

    with Timeline() as timeline:
        asyncio.run(main())
    found = trace(timeline)
    tracks = {(event["name"], found.thread_of(event)) for event in found.scopes()}
    assert tracks == {(name, f"{task} (MainThread)") for name in ("fetch", "decode") for task in "ab"}


def test_tasks_without_number_share_a_track(trace) -> None:
    async def handle() -> None:
        with new_dispose_scope("handle"):
            await asyncio.sleep(0)

    async def main() -> None:
        for _ in range(300):
            await asyncio.create_task(handle())

    with Timeline(max_events=400) as timeline:
        asyncio.run(main())
    found = trace(timeline)
    assert len(found.threads) < 40
    assert "more tasks (MainThread)" in found.threads.values()
    assert found.rounds("handle") == 300


def test_scopes_that_end_out_of_order_are_drawn_on_separate_tracks(trace) -> None:
    with Timeline() as timeline:
        outer = new_dispose_scope("outer")
        inner = new_dispose_scope("inner")
        outer.dispose()
        inner.dispose()
    found = trace(timeline)
    assert [found.thread_of(event) for event in found.scopes()] == ["MainThread", "MainThread, 2"]


def test_scopes_that_follow_each_other_inside_another_are_drawn_on_its_track(trace) -> None:
    with Timeline() as timeline, new_dispose_scope("outer"):
        for name in ("first", "second"):
            with new_dispose_scope(name):
                pass
    found = trace(timeline)
    assert [found.thread_of(event) for event in found.scopes()] == ["MainThread"] * 3


def test_a_slice_that_outlives_the_inner_of_two_others_is_drawn_apart(trace) -> None:
    with Timeline() as timeline:
        outer, middle, inner = (new_dispose_scope(name) for name in ("outer", "middle", "inner"))
        middle.dispose()
        inner.dispose()
        outer.dispose()
    found = trace(timeline)
    tracks = {event["name"]: found.thread_of(event) for event in found.scopes()}
    assert tracks == {"outer": "MainThread", "middle": "MainThread", "inner": "MainThread, 2"}


def test_a_scope_that_is_open_at_the_end_says_so(trace) -> None:
    with Timeline() as timeline:
        scope = new_dispose_scope("long")
        early = trace(timeline, "early.json")
        scope.dispose()
    (event,) = early.scopes()
    assert event["args"] == {"path": "long", "open": True}
    (event,) = trace(timeline).scopes()
    assert event["args"] == {"path": "long"}


def test_a_name_in_gz_is_compressed(tmp_path) -> None:
    with Timeline() as timeline, new_dispose_scope("step"):
        pass
    timeline.save(str(tmp_path / "trace.json.gz"))
    assert Trace(tmp_path / "trace.json.gz").rounds("step") == 1


def test_names_with_quotes_and_other_letters_are_written_unchanged(trace) -> None:
    name = 'a "b" \\ \n ü 量'
    with Timeline() as timeline, new_dispose_scope(name):
        pass
    assert trace(timeline).scopes()[0]["name"] == name


def test_an_older_object_is_not_in_it_and_its_end_breaks_nothing(trace) -> None:
    with scopes.track():
        before = Thing()
        with Timeline() as timeline:
            before.dispose()
            Thing()
    found = trace(timeline)
    assert (found.count("create"), found.count("dispose")) == (1, 1)


def test_tracking_is_on_in_the_block_only_and_no_listener_is_left() -> None:
    with scopes.track():
        with Timeline() as first, Timeline() as second:
            assert is_tracking()
            Thing()
        assert tracking.current.tracker.listeners == ()
    assert not is_tracking()
    assert repr(first).endswith("at most 100,000 events>")
    assert repr(second).endswith("at most 100,000 events>")


def test_it_ends_with_an_error_in_its_block_too(trace) -> None:
    with pytest.raises(ZeroDivisionError):
        with Timeline() as timeline:
            with new_dispose_scope("step"):
                _ = 1 / 0
    assert not is_tracking()
    assert trace(timeline).rounds("step") == 1


def test_a_second_recording_in_one_timeline_is_refused() -> None:
    with Timeline() as timeline:
        pass
    with pytest.raises(RuntimeError, match="has begun already"):
        with timeline:
            pass
    assert not is_tracking()


@pytest.mark.parametrize("wrong", [0, 99, -1])
def test_too_few_events_are_refused(wrong: int) -> None:
    with pytest.raises(ValueError, match=f"max_events must be at least 100, not {wrong}"):
        Timeline(max_events=wrong)


@pytest.mark.parametrize("most", [100, 1000])
def test_a_long_run_is_merged_and_all_is_counted(trace, most: int) -> None:
    leaked = []
    with Timeline(max_events=most) as timeline:
        for _ in range(20):
            with new_dispose_scope("epoch"):
                for _ in range(50):
                    with new_dispose_scope("step"):
                        Thing()
                        with new_dispose_scope("forward"):
                            leaked.append(scopes.current_dispose_scope().detach(Thing(100)))
        assert len(timeline._kept) + len(timeline._new_events) <= most
    assert len(timeline._kept) <= most
    found = trace(timeline)
    assert found.rounds("epoch") == 20
    assert found.rounds("epoch > step") == 1000
    assert found.rounds("epoch > step > forward") == 1000
    assert (found.count("create"), found.count("dispose")) == (2000, 1000)
    assert found.about["merged"]["scopes"]["count"] > 500
    assert found.about["merged"]["disposables"]["count"] > 500
    # Each of those merged has ended in its own way, and no arrow leads to many.
    merged = [event for event in found.moments("dispose") if event["args"]["count"] > 1]
    assert merged
    assert not any("how" in event["args"] for event in merged)
    assert not {event["ts"] for event in merged} & {event["ts"] for event in found.of("f")}
    assert found.about["dropped"] == {"unseen": 0}


def test_nothing_of_a_short_run_is_merged(trace) -> None:
    with Timeline() as timeline:
        with new_dispose_scope("step"):
            Thing()
    nothing = {"count": 0, "within_us": 0}
    assert trace(timeline).about["merged"] == {
        "scopes": nothing,
        "disposables": nothing,
        "samples": {"within_us": 0},
    }


def test_of_more_tracks_than_fit_the_longest_scopes_stay_and_the_others_are_counted(trace) -> None:
    async def run(name: str) -> None:
        with new_dispose_scope(name):
            time.sleep(0.02 if name == "long" else 0)
            Thing()

    async def run_all() -> None:
        for number in range(60):
            await asyncio.create_task(run("long" if number == 1 else "short"))

    with Timeline(max_events=100) as timeline:
        asyncio.run(run_all())
    found = trace(timeline)
    dropped = found.about["dropped"]
    assert found.rounds("long") == 1
    assert dropped["scopes"] > 0
    assert found.rounds("short") + dropped["scopes"] == 59
    assert found.count("create") + dropped.get("disposables", 0) == 60


def test_a_tensor_that_ends_after_it_was_merged_counts_as_disposed(trace) -> None:
    with Timeline(max_events=100) as timeline:
        things = [Thing() for _ in range(1000)]
        things.clear()
    found = trace(timeline)
    assert (found.count("create"), found.count("dispose")) == (1000, 1000)


def test_names_that_never_repeat_stay_within_the_bound(trace) -> None:
    with Timeline(max_events=200) as timeline:
        for number in range(5000):
            with new_dispose_scope(f"step {number}"):
                Thing()
    assert len(timeline._kept) <= 200
    assert len(timeline._common_paths) <= 1024
    trace(timeline)


def test_scopes_that_are_never_ended_stay_within_the_bound(trace) -> None:
    with Timeline(max_events=200) as timeline:
        opened = [new_dispose_scope("open") for _ in range(1000)]
    while opened:
        opened.pop().dispose()
    assert len(timeline._kept) <= 200
    assert trace(timeline).about["dropped"]["scopes"] > 800


def test_eight_threads_at_once_are_recorded_whole(trace) -> None:
    ready = threading.Barrier(8)

    def work() -> None:
        ready.wait()
        for _ in range(500):
            with new_dispose_scope("step"):
                Thing()

    with Timeline(max_events=20_000) as timeline:
        threads = [threading.Thread(target=work, name=f"worker {n}") for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = trace(timeline)
    assert found.about["dropped"] == {"unseen": 0}
    assert len({found.thread_of(event) for event in found.scopes()}) == 8
    assert found.rounds("step") == found.count("create") == found.count("dispose") == 4000
    assert len(timeline._kept) <= 20_000


class Entering:
    """Stops the thread that next enters what is new, until `go_on` is set."""

    def __init__(self, timeline: Timeline, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun = threading.Event()
        self.go_on = threading.Event()
        self._thin = timeline._kept.thin
        monkeypatch.setattr(timeline._kept, "thin", self)

    def __call__(self, now: int) -> None:
        self.has_begun.set()
        self.go_on.wait()
        self._thin(now)


def make_things(count: int) -> None:
    for _ in range(count):
        Thing()


def test_a_thread_that_is_slow_to_enter_events_is_waited_for(trace, monkeypatch) -> None:
    monkeypatch.setattr("scopes.reports.timeline._MAX_WAIT", 300.0)
    with Timeline(max_events=200) as timeline:
        entering = Entering(timeline, monkeypatch)
        threads = [threading.Thread(target=make_things, args=(500,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert entering.has_begun.wait(300)
        time.sleep(0.3)  # the other one has filled what room there is, and waits; if not, all the better
        entering.go_on.set()
        for thread in threads:
            thread.join()
    assert trace(timeline).about["dropped"].get("unseen") == 0
    assert trace(timeline).count("create") == 1000


@contextmanager
def held_elsewhere(guard: Guard) -> Iterator[None]:
    """Let another thread be inside a call of the guard meanwhile."""
    begun, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        is_over.wait()

    other = threading.Thread(target=guard.run, args=(hold,))
    other.start()
    begun.wait()
    try:
        yield
    finally:
        is_over.set()
        other.join()


def test_a_thread_that_waits_in_vain_for_the_entering_thread_continues_and_lost_events_are_counted(
    trace, monkeypatch
) -> None:
    monkeypatch.setattr(timelines, "_MAX_WAIT", 0.01)
    with Timeline(max_events=1000) as timeline:
        with held_elsewhere(timeline._entering):
            things = [Thing() for _ in range(200)]
            assert timeline._is_stuck  # nobody waits a second time
        things += [Thing() for _ in range(100)]
        assert not timeline._is_stuck
    found = trace(timeline)
    unseen = found.about["dropped"]["unseen"]
    assert unseen >= 75  # an eighth of the events may wait
    assert len(things) - unseen <= found.count("create") <= 225


def test_a_scope_that_begins_while_another_thread_looks_at_memory_is_the_open_one_from_then_on() -> None:
    with Timeline() as timeline, held_elsewhere(timeline._sampling):
        timeline._sampled_at = 0  # a look is due
        with new_dispose_scope("step"):
            pass
    assert [sample.path for sample in timeline._kept.samples][1:3] == [("step",), ()]


def test_the_outer_scope_is_the_open_one_after_the_inner_scope() -> None:
    with Timeline() as timeline:
        with new_dispose_scope("outer"):
            for name in ("first", "second"):
                with new_dispose_scope(name):
                    pass
    outer = ("outer",)
    assert [sample.path for sample in timeline._kept.samples] == [
        (),
        outer,
        (*outer, "first"),
        outer,
        (*outer, "second"),
        outer,
        (),
        (),
    ]


def test_ends_that_the_collector_finds_while_it_works_are_recorded(trace) -> None:
    with Timeline(max_events=2000) as timeline:
        for _ in range(500):
            one, other = Thing(), Thing()
            one.partner, other.partner = other, one
        del one, other
        gc.collect()
    found = trace(timeline)
    assert (found.count("create"), found.count("dispose")) == (1000, 1000)


def test_figures_of_several_packages_are_added(trace, monkeypatch) -> None:
    monkeypatch.setattr(meters, "memory_figures", [])
    measure_memory_by(lambda: (100, 7))
    measure_memory_by(lambda: (20, 3))
    with Timeline() as timeline:
        pass
    found = trace(timeline)
    assert found.counter("bytes", "live") == [120, 120]
    assert found.counter("bytes", "cached") == [10, 10]


@pytest.mark.parametrize(("steps", "most"), [(400, 100), pytest.param(5000, 1000, marks=pytest.mark.soak)])
def test_timeline_memory_stays_bounded_for_any_number_of_events(trace, steps: int, most: int) -> None:
    tracemalloc.start()
    try:
        with Timeline(max_events=most) as timeline:
            start = tracemalloc.get_traced_memory()[0]
            for _ in range(steps):
                with new_dispose_scope("step"):
                    Thing()
            # Without a bound it would be some 1,000 bytes a step.
            assert tracemalloc.get_traced_memory()[0] - start < 200_000 + 600 * most
    finally:
        tracemalloc.stop()
    assert trace(timeline).rounds("step") == steps


def test_thinned_samples_keep_the_highest_and_the_last_of_each_grain() -> None:
    samples = [Sample(at, live, 0, 0, (), None) for at, live in enumerate([1, 9, 2, 3, 4, 5, 8, 6])]
    assert [sample.live for sample in thin_samples(samples, 4)] == [9, 3, 8, 6]


def span(begin: int, end: int, *path: str, track: Track = Track("main", 1)) -> Span:  # noqa: B008
    made = Span(begin, track, path)
    made.close(end)
    return made


def test_thinned_spans_merge_neighbours_and_their_contents_but_not_across_long_ones() -> None:
    spans = [
        span(0, 2, "a"),
        span(0, 1, "a", "in"),
        span(3, 5, "b"),
        span(10, 40, "long"),
        span(11, 12, "long", "a"),
        span(41, 43, "a"),
    ]
    kept = [(s.begin, s.end, s.path, s.count, s.busy, dict(s.inside or {})) for s in thin_spans(spans, 20)]
    assert kept == [
        (0, 5, ("a",), 1, 4, {("a", "in"): 1, ("b",): 1}),
        (10, 40, ("long",), 1, 30, {}),
        (11, 12, ("long", "a"), 1, 1, {}),
        (41, 43, ("a",), 1, 2, {}),
    ]


def test_short_spans_on_either_side_of_the_end_of_a_long_one_stay_apart() -> None:
    spans = [span(10, 41, "long"), span(40, 41, "long", "a"), span(42, 43, "b"), span(44, 45, "b")]
    kept = [(s.begin, s.end, s.path, s.count) for s in thin_spans(spans, 20)]
    assert kept == [(10, 41, ("long",), 1), (40, 41, ("long", "a"), 1), (42, 45, ("b",), 2)]


def peaks_of(*figures: tuple[int, scopes.Site | None]) -> list[tuple[int, scopes.Site | None]]:
    samples = [Sample(at, live, 0, 0, (), site) for at, (live, site) in enumerate(figures)]
    return [(peak.live, peak.site) for peak in peaks(samples)]


def test_memory_that_rises_until_the_end_is_a_peak_and_what_is_left_after_a_fall_is_none() -> None:
    first, second = scopes.Site(()), scopes.Site(())
    assert peaks_of((50, first), (900, second)) == [(900, second)]
    assert peaks_of((50, first), (900, second), (30, first), (20, first)) == [(900, second)]


def test_samples_within_a_thirty_second_of_the_height_belong_to_one_peak() -> None:
    first, second = scopes.Site(()), scopes.Site(())
    assert peaks_of((3200, first), (3300, second), (3100, second)) == [(3300, first)]
    assert peaks_of((3200, first), (3301, second), (0, None)) == [(3301, second)]
    # A line is known only from the second sample on.
    assert peaks_of((3200, None), (3210, second), (3205, first), (0, None)) == [(3210, second)]


def test_peak_is_reported_for_the_line_that_brought_memory_close_to_it() -> None:
    first, second = scopes.Site(()), scopes.Site(())
    samples = [
        Sample(at, live, 0, 0, (), site)
        for at, (live, site) in enumerate(
            [(50, first), (900, second), (901, first), (30, None), (700, first), (0, None), (600, second)]
        )
    ]
    found = [(peak.at, peak.live, peak.site) for peak in peaks(samples)]
    assert found == [(2, 901, second), (4, 700, first)]


def test_peaks_of_no_samples_are_empty() -> None:
    assert peaks([]) == []


def test_a_file_that_is_no_trace_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("mine", encoding="utf-8")
    with Timeline() as timeline:
        pass
    with pytest.raises(FileExistsError, match="is not a report of disposescope"):
        timeline.save(path)
    assert path.read_text(encoding="utf-8") == "mine"


# Lines that a plot draws as leaks. `plot` itself needs matplotlib.


@pytest.fixture
def leaks(monkeypatch: pytest.MonkeyPatch) -> Callable[[Timeline], list[int]]:
    """Return a function that returns how many objects each leak of a plot has."""
    monkeypatch.setattr(timelines, "draw", lambda samples, growths, path: growths)
    return lambda timeline: [len(growth.steps) for growth in timeline.plot()]


def run_rounds(count: int, keeping: Container[int], kept: list[object]) -> None:
    """Keep one object of each round that `keeping` contains."""
    for number in range(count):
        with new_dispose_scope("step") as scope:
            thing = Thing()
            if number in keeping:
                kept.append(scope.detach(thing))


@pytest.mark.parametrize(
    ("keeping", "found"),
    [
        (range(20), [20]),
        (range(0, 20, 4), [5]),
        (range(5, 20), [15]),  # three quarters
        (range(10, 20), []),
        (range(10), []),
        ([4, 5, 9, 10, 14], [5]),
        ([0, 5, 10], []),  # too few
    ],
    ids=str,
)
def test_a_leak_leaves_objects_in_three_quarters_of_the_rounds_of_a_timeline(leaks, keeping, found) -> None:
    kept: list[object] = []
    with scopes.track():
        run_rounds(30, (), kept)  # they do not count
        with Timeline() as timeline:
            run_rounds(20, keeping, kept)
    assert leaks(timeline) == found


def test_a_timeline_under_way_has_leaks_of_the_rounds_so_far(leaks) -> None:
    kept: list[object] = []
    with Timeline() as timeline:
        run_rounds(20, range(20), kept)
        assert leaks(timeline) == [20]
        run_rounds(100, (), kept)
        assert leaks(timeline) == []
    assert leaks(timeline) == []


@pytest.mark.parametrize(("others", "found"), [(0, [8]), (30, [])], ids=["throughout", "at the beginning"])
def test_without_scopes_a_leak_is_created_throughout_all_creations(leaks, others: int, found) -> None:
    with scopes.track():
        before = [Thing() for _ in range(50)]
        with Timeline() as timeline:
            kept = [Thing() for _ in range(8)]
            for _ in range(others):
                Thing()
    assert leaks(timeline) == found
    assert before
    assert kept
