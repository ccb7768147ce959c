"""What has risen all along a run, told from many looks at what lines kept."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

import scopes
from scopes import new_dispose_scope
from scopes.reports.history import History, Look, risen
from scopes.reports.run_record import RunRecord
from scopes.reports.runs import record_of
from scopes.tracking.sites import Site
from tests.things import Thing

SITE, OTHER = Site(()), Site(())


def looks(weights: list[int | None], births: int = 10, deaths: int = 10) -> list[Look]:
    """Looks at equal distances; None: the line kept nothing yet."""
    return [
        Look(n * 1000, (n + 1) * births, (n + 1) * deaths, 0, {} if weight is None else {SITE: weight})
        for n, weight in enumerate(weights)
    ]


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (list(range(0, 4000, 100)), True),  # a leak
        ([100 * (n // 10) for n in range(40)], True),  # one in steps, of four epochs
        ([100 * n + 5000 * (n % 3 == 0) for n in range(40)], True),  # under what each step makes and lets go
        ([5000] * 40, False),  # data
        ([None] + [5000] * 39, False),  # the state of an optimizer, made by the first step
        ([5000 * (n % 3 == 0) for n in range(40)], False),  # what comes and goes
        ([min(100 * n, 800) for n in range(40)], False),  # a cache that fills up, and stays so
        ([min(100 * n, 2000) for n in range(40)], False),  # one that takes half of the run to fill
        ([max(0, 4000 - 100 * n) for n in range(40)], False),  # what goes
        ([None] * 30 + [100 * n for n in range(10)], False),  # what is gathered at the end: predictions
        ([None] * 15 + [100 * n for n in range(25)], True),  # a leak that begins late
    ],
)
def test_a_leak_is_a_steady_rise(weights: list[int | None], expected: bool) -> None:
    found = risen(looks(weights), SITE)
    assert found is not None
    assert found.is_steady is expected


def test_too_few_records_give_no_growth() -> None:
    assert risen(looks([100, 200, 300]), SITE) is None
    assert risen(looks([100] * 40), OTHER) is None


def test_a_gap_before_the_last_look_hides_no_leak() -> None:
    few = looks([100 * n for n in range(20)])
    few.append(Look(10**6, 300, 300, 0, {SITE: 3000}))
    assert risen(few, SITE) == (2900, True, False)


def test_setup_memory_is_not_counted_in_a_run_that_frees_more() -> None:
    building = [Look(n, 1000 * n, 0, 0, {OTHER: n}) for n in range(1, 20)]
    loop = [Look(20 + n, 20_000 + 500 * n, 500 * n, 0, {SITE: n, OTHER: 20}) for n in range(40)]
    assert risen([*building, *loop], SITE) == (36, True, False)
    gone = risen([*building, *loop], OTHER)
    assert gone is None or not gone.is_steady


def test_the_high_water_mark_is_kept_when_all_has_gone() -> None:
    with scopes.track():
        history = History()
        history.begin()
        kept = [Thing(1000) for _ in range(50)]
        kept.clear()
        for _ in range(50):
            Thing(10)
        assert history.look().nbytes == 0
        found = history.high_water_mark()
        history.end()
    assert found is not None
    report, _ = found
    assert report.rows[0].count >= 45


def test_of_equal_high_water_marks_the_last_is_reported() -> None:
    with scopes.track():
        history = History()
        history.begin()
        for _ in range(2):
            thing = Thing(1000)
            history.look()
            thing.dispose()
        found = history.high_water_mark()
        history.end()
    assert found is not None
    highest = [look.at / 1e9 for look in history.looks if look.weight == 1000]
    assert found[1] == highest[-1] > highest[0]


def test_a_long_run_has_few_more_looks_than_a_short_one() -> None:
    with scopes.track():
        history = History()
        history.begin()
        counts = []
        for _ in range(2):
            for _ in range(2000):
                with new_dispose_scope("step"):
                    Thing(8)
            counts.append(len(history.looks))
        history.end()
    assert counts[0] < 300
    assert counts[1] - counts[0] < 60


class Slow(Thing):
    """On a machine that takes its time."""

    __slots__ = ()

    def _footprint(self) -> tuple[int, int]:
        until = time.process_time() + 0.004
        while time.process_time() < until:
            pass
        return super()._footprint()


def looks_of_a_run_with(kind: type[Thing], kept: int, creations: int) -> list[int]:
    """Return how many creations there had been at each look."""
    with scopes.track():
        history = History()
        history.begin()
        first = kind(8)
        alive = [Thing(8) for _ in range(kept)]
        for _ in range(creations):
            Thing(8)
        history.end()
        assert first.whole
        assert len(alive) == kept
    return [look.births for look in history.looks]


def test_a_slow_machine_looks_when_a_fast_one_does() -> None:
    assert looks_of_a_run_with(Slow, 10, 1000) == looks_of_a_run_with(Thing, 10, 1000)


def test_history_records_again_when_a_quarter_more_was_created() -> None:
    births = looks_of_a_run_with(Thing, 10_000, 60_000)
    rare = [later / earlier for earlier, later in pairwise(births) if later > 10_000]
    assert max(rare) < 1.3
    assert births[-1] > 70_000 / 1.3
    # A look at all that is alive is expensive, so there are only a few of them.
    assert len(rare) < 30


def test_garbage_of_an_earlier_run_that_is_collected_later_hides_no_leak() -> None:
    with scopes.track():
        garbage = [Thing(1000) for _ in range(1000)]
        history = History(since=scopes.snapshot())
        history.begin()
        Thing(8)
        garbage.clear()
        kept = []
        for _ in range(100):
            Thing(8)
            kept.append(Thing(10_000))
        outcome = record_of(history, "the run")
        history.end()
    assert outcome.is_leaking, outcome
    assert len(kept) == 100


def test_growth_by_the_threshold_is_a_leak() -> None:
    def grown() -> int:
        (line,) = record_of(history, "the run", 1).to_dict()["growing"]
        return line["risen"]

    kept: list[Thing] = []
    with scopes.track():
        history = History(since=scopes.snapshot())
        history.begin()
        train_with_leak(kept)
        for _ in range(20):
            threshold = grown()
            found = [record_of(history, "the run", threshold + more).is_leaking for more in (0, 1)]
            if grown() == threshold:  # each outcome looks at the end once more, which may change the growth
                break
        history.end()
    assert found == [True, False]


def outcome_of(*phases: Callable[[list[Thing]], object]) -> RunRecord:
    """Return the outcome of a run whose function keeps a list, and runs `phases` with it."""

    def main() -> None:
        kept: list[Thing] = []
        for phase in phases:
            phase(kept)

    with scopes.track(depth=2):  # the constructor of Thing, and its caller
        history = History(since=scopes.snapshot())
        history.begin()
        main()
        outcome = record_of(history, "the run")
        history.end()
    return outcome


def test_a_record_as_plain_data_has_what_it_prints() -> None:
    record = outcome_of(peak, train_with_leak)
    told = json.loads(json.dumps(record.to_dict()))
    parts = [(part.pop("title"), part.pop("after"), part) for part in told["parts"]]
    _, (title, seconds, highest), (_, end, at_the_end) = parts
    assert title == f"It held most after {seconds:.3g} s:"
    assert end is None
    assert at_the_end == record.latest.to_dict()
    assert record.highest is not None
    assert (highest, seconds) == (record.highest[0].to_dict(), record.highest[1])
    (line,) = told["growing"]
    assert line["lines"][0]["file"].endswith("things.py")
    assert 500_000 < line["risen"] <= 1_000_000
    assert max(weight for _, weight in told["moments"]) == record.highest[0].weight == 50_000_000


def train_with_leak(kept: list[Thing]) -> None:
    for _ in range(100):
        Thing(8)
        kept.append(make(10_000))


def peak(_: list[Thing]) -> None:
    alive = [make_large(1_000_000) for _ in range(50)]
    del alive


def make(size: int) -> Thing:
    return Thing(size)


def make_large(size: int) -> Thing:
    return Thing(size)


PHASES = {
    "early": (peak, train_with_leak),
    "middle": (train_with_leak, peak, train_with_leak),
    "late": (train_with_leak, peak),
    "often": (peak, train_with_leak, peak, train_with_leak, peak),
}


@pytest.mark.parametrize("phases", PHASES.values(), ids=PHASES)
def test_no_peak_hides_the_leak_of_a_function_that_has_returned(phases) -> None:
    outcome = outcome_of(*phases)
    assert outcome.is_leaking
    title, report = outcome.parts[0]
    assert "held most after" in title
    row = next(row for row in report.rows if row.is_growing)
    assert row.risen > 500_000
    assert row.holder == "kept[...], a local of main()"


def test_a_peak_of_the_growing_line_itself_hides_no_leak() -> None:
    def peak_of_the_line(_: list[Thing]) -> None:
        alive = [make(1_000_000) for _ in range(30)]
        del alive

    outcome = outcome_of(peak_of_the_line, train_with_leak)
    assert outcome.is_leaking
    assert outcome.parts[0][1].rows[0].count > 80


@pytest.mark.parametrize("before", [0, 100, 300])
def test_what_a_phase_gathers_and_frees_is_no_leak(before: int) -> None:
    def work(count: int) -> None:
        for _ in range(count):
            Thing(8)

    def gather(_: list[Thing]) -> None:
        found = [make(10_000) for _ in range(100)]
        del found

    outcome = outcome_of(lambda _: work(before), gather, lambda _: work(400 - before))
    assert not outcome.is_leaking, outcome


def test_a_leak_at_the_end_is_first_though_another_line_held_more_before() -> None:
    with scopes.track(depth=2):
        history = History(since=scopes.snapshot())
        history.begin()
        kept: list[Thing] = []
        peak(kept)
        train_with_leak(kept)
        outcome = record_of(history, "the run")
        history.end()
    (first, report), (second, _) = outcome.parts
    assert first == "the run has ended. At the end:"
    assert report.rows[0].is_growing
    assert second.startswith("It held most after ")


def test_a_run_that_is_too_short_to_judge_says_so() -> None:
    outcome = outcome_of(lambda kept: kept.append(Thing(100)))
    assert "the run was too short to judge growth" in outcome.verdict


def test_the_verdict_names_the_lines_that_grew_and_says_what_it_covers() -> None:
    def drop(kept: list[Thing]) -> None:
        for _ in range(20_000):
            kept.append(Thing(100))
            kept.clear()

    covers = (
        r"The check covers the memory of each line, with graphs, at \d+ moments of the run and at its end\. "
        r"A line leaks if its memory has grown throughout the run, or for half of the run before it was "
        r"freed, by 64 KiB or more\."
    )
    leaking, calm = outcome_of(train_with_leak), outcome_of(drop)
    line = r"\S*things\.py:\d+ in Thing\.__init__ < \S+ in make"
    assert re.fullmatch(rf"1 line keeps more and more: {line} \(\d+\.\d KiB\)\. {covers}", leaking.verdict)
    assert re.fullmatch(rf"No line keeps more and more\. {covers}", calm.verdict)
    assert calm.to_dict()["growing"] == []
