import io
import json
import re
import sys
from collections.abc import Iterator

import pytest

import scopes
from scopes import LeakReport, leaks, new_dispose_scope, snapshot, track
from scopes.reports.leaks import is_spread_out
from scopes.tracking.tracking import note_made_for
from tests.things import Thing


@pytest.fixture(autouse=True)
def tracking_is_off_afterwards() -> Iterator[None]:
    yield
    assert not scopes.is_tracking()


class Sheet(Thing):
    """A thing over memory that others may lie over too, and whose history keeps more."""

    __slots__ = ("history", "memory")

    def __init__(self, memory: object, size: int, *history: tuple[object, int]) -> None:
        self.memory = memory
        self.history = history
        super().__init__(size)

    def _footprint(self) -> tuple[int, int]:
        return id(self.memory), self.size

    def _keeps(self, seen):
        yield self._footprint()
        for memory, size in self.history:
            yield id(memory), size


class Leaf(Thing):
    __slots__ = ()


def rows_of(report: LeakReport) -> list[tuple[int, int, float]]:
    return [(row.count, row.nbytes, row.count_per_round) for row in report.rows]


@pytest.mark.parametrize("ask", [leaks, snapshot])
def test_without_tracking_the_error_says_how_to_switch_it_on(ask) -> None:
    with pytest.raises(
        RuntimeError, match=r"tracking is off.*`with scopes.track\(\):`.*DISPOSESCOPE_TRACK=1"
    ):
        ask()


def test_survivors_need_tracking_too() -> None:
    with new_dispose_scope() as scope, pytest.raises(RuntimeError, match="tracking is off"):
        scope.survivors()


def test_a_report_without_live_tensors_says_so() -> None:
    with track():
        report = leaks()
    assert str(report) == "nothing is alive that was created while tracking was on"
    assert (report.count, report.nbytes, report.rounds, report.rows) == (0, 0, 1, ())


def test_since_a_snapshot_only_later_tensors_and_their_rounds_count() -> None:
    with track():
        kept = []
        for _ in range(4):
            with new_dispose_scope("step") as scope:
                kept.append(scope.detach(Thing()))
        start = snapshot()
        for _ in range(6):
            with new_dispose_scope("step") as scope:
                kept.append(scope.detach(Thing()))
        assert (leaks().count, leaks().rounds) == (10, 10)
        later = leaks(since=start)
        assert (later.count, later.rounds) == (6, 6)
        assert rows_of(later) == [(6, 24, 1.0)]
        assert leaks(since=snapshot()).count == 0


def test_memory_of_two_is_the_older_ones_and_a_history_last() -> None:
    memory, other, saved = object(), object(), object()
    with track():
        first = Sheet(memory, 100, (saved, 50))
        second = Sheet(memory, 100, (saved, 50), (other, 30))
        third = Sheet(other, 30)
        rows = {row.nbytes for row in leaks().rows}
        # All are put to the constructor of Sheet's base, one line of the user's.
        assert rows == {100 + 50 + 30}
        assert leaks().count == 3
        del first
        assert leaks().nbytes == 100 + 50 + 30
        del second
        assert leaks().nbytes == 30
        del third


def test_a_history_does_not_credit_an_older_objects_memory_to_a_newer_one() -> None:
    weight = object()
    with track():
        old = Sheet(weight, 1000)
        start = snapshot()
        new = Sheet(object(), 10, (weight, 1000))
        assert leaks(since=start).nbytes == 10
        assert leaks().nbytes == 1010
        del old, new


def test_an_object_made_for_another_is_reported_at_the_line_of_the_other() -> None:
    with track():
        owner = Thing()
        for _ in range(2):
            note_made_for(owner, state := Leaf())
        (row,) = leaks().rows
        assert row.kinds == ("Leaf", "Thing")
        del state


def test_to_dict_of_a_report_is_json_with_all_figures() -> None:
    with track(depth=2), new_dispose_scope("outer") as scope:
        thing = scope.detach(Thing(7))
        report = leaks()
        del thing
    told = json.loads(json.dumps(report.to_dict()))
    assert (told["count"], told["bytes"], told["rounds"]) == (1, 7, 1)
    (row,) = told["rows"]
    assert row["scope"] == ["outer"]
    assert [line["text"] for line in row["lines"]] == ["super().__init__()", "thing = scope.detach(Thing(7))"]
    assert row["lines"][1]["file"] == __file__
    assert (row["count"], row["bytes"], row["kinds"], row["is_growing"]) == (1, 7, ["Thing"], False)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, ""),
        ({"holder": "cache"}, "held by cache"),
        ({"holder": "cache", "held_count": 4, "searched_count": 4}, "held by cache"),
        ({"holder": "cache", "held_count": 3, "searched_count": 4}, "held by cache (3 of 4)"),
        ({"holder": "cache", "held_count": 2, "searched_count": 3}, "held by cache (2 of the 3 looked for)"),
        ({"followed_count": 2000}, "no holder found: the search ended after 2,000 references"),
        ({"holder": "cache", "followed_count": 2000}, "held by cache"),
    ],
)
def test_a_row_says_who_holds_its_objects_and_how_many_of_them(known, expected: str) -> None:
    row = scopes.LeakRow(scopes.Site(()), ("Thing",), 4, 0, 0.0, 0.0, (), **known)
    text = str(LeakReport((row,), 1))
    assert re.findall(r"held by .*|no holder .*", text) == ([expected] if expected else [])


def test_a_report_outlives_tracking_and_holds_nothing_alive() -> None:
    with track():
        thing = Thing()
        report = leaks()
        del thing
        assert leaks().count == 0
    assert report.count == 1
    assert "super().__init__()" in str(report)


@pytest.mark.parametrize(
    ("moments", "until", "expected"),
    [
        ([], 100, False),
        ([50], 100, False),
        ([0, 1], 100, False),  # two at the start: made once
        ([0, 60], 100, True),
        (range(0, 100, 10), 100, True),
        (range(10), 100, False),  # ten at the start: a model, a cache that has filled up
        (range(90, 100), 100, False),  # ten at the end: the last ones are always alive
        ([0, 33, 66], 100, True),  # an optimizer for each of three epochs
        ([0, 25, 50], 150, True),  # and a long evaluation after them
        (range(40, 100, 5), 100, True),
        ([0, 0, 1, 1], 2, True),
        ([0, 0, 0, 0], 1, False),
        ([0, 0, 0, 4], 4, False),
    ],
)
def test_growth_is_spread_over_the_whole_run(moments, until: int, expected: bool) -> None:
    assert is_spread_out(list(moments), until) is expected


@pytest.mark.parametrize("rounds", [2, 3, 10, 1000])
def test_one_left_in_each_round_is_one_a_round(rounds: int) -> None:
    with track():
        kept = []
        for _ in range(rounds):
            with new_dispose_scope("step") as scope:
                Thing(100)
                kept.append(scope.detach(Thing(8)))
        (row,) = leaks().rows
        assert (row.count, row.count_per_round, row.bytes_per_round) == (rounds, 1.0, 8.0)


def test_the_last_ones_of_a_bounded_cache_do_not_grow() -> None:
    with track():
        cache = []
        for _ in range(100):
            with new_dispose_scope("step") as scope:
                cache.append(scope.detach(Thing(8)))
                del cache[:-5]
        (row,) = leaks().rows
        assert (row.count, row.is_growing, row.count_per_round) == (5, False, 0.0)


def test_without_scopes_growth_is_reported_only_after_a_long_enough_run() -> None:
    with track():
        kept = []
        for i in range(400):
            thing = Thing(8)
            if i % 10 == 0:
                kept.append(thing)
        del thing
        (row,) = leaks().rows
        assert (row.count, row.is_growing) == (40, True)


def test_a_live_view_prints_the_report_again_and_again(capsys: pytest.CaptureFixture[str]) -> None:
    kept = []
    with track(every=1e-9):
        kept += [Thing(8) for _ in range(3)]
    text = capsys.readouterr().err
    assert text.count("\nAfter ") == 3
    assert "2 alive, 16 bytes" in text
    with track():
        kept.append(Thing(8))
    assert capsys.readouterr().err == ""


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError("the other end is closed")


@pytest.mark.parametrize(("stream", "is_first_used"), [(io.StringIO, False), (Broken, True)])
def test_a_report_is_written_once_to_the_programs_stream_or_the_first_one(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], is_first_used: bool
) -> None:
    own, first = stream(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", own)
    monkeypatch.setattr(sys, "__stderr__", first)
    with track(every=1e-9):
        kept = [Thing(8) for _ in range(2)]
    assert own.getvalue().count("\nAfter ") == (0 if is_first_used else len(kept))
    assert first.getvalue().count("\nAfter ") == (len(kept) if is_first_used else 0)


def test_a_live_view_needs_a_time() -> None:
    with pytest.raises(ValueError, match=r"write track\(every=60\)"):
        track(every=0)
