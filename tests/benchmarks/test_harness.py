"""The runner: medians, ratios, turns, and contenders that must agree."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from benchmarks import ROOT
from benchmarks.catalogue import FAMILIES, all_cases, case_of, family_of
from benchmarks.contenders import NUMPY, OURS, TORCH, library
from benchmarks.harness import LEAST_OF, Case, Manner, Result, Summary, check_agreement, measure, turns
from benchmarks.running import run_together


def summary(median: float) -> Summary:
    return Summary(median, median, median, median, 1, 1)


def test_a_summary_has_the_quartiles():
    of = Summary.of([5.0, 1.0, 2.0, 4.0, 3.0], 7, [1.0] * 5)
    assert (of.lower_quartile, of.median, of.upper_quartile, of.rounds, of.repetitions) == (2, 3, 4, 5, 7)
    assert Summary.of([2.5], 1, [5.0]) == Summary(2.5, 2.5, 2.5, 0.5, 1, 1)


def test_a_ratio_is_taken_within_rounds_whatever_the_machine_does_between_them():
    seconds = iter([1.0, 1.5, 3.0, 2.0, 4.0, 6.0, 12.0, 8.0])  # the first is another in each round
    case = Case("x/y", lambda _: lambda _: 0.0, rounds=4, repetitions=1)
    result = measure(case, {OURS: lambda _: next(seconds), TORCH: lambda _: next(seconds)}, Manner())
    assert result.summaries[OURS].median == 3.0
    assert result.ratio(TORCH) == 1.5
    assert result.ratio(NUMPY) is None


def test_the_least_of_many_rounds_counts_where_others_use_the_machine():
    numbers = iter(range(10, 10 + 2 * LEAST_OF))
    case = Case("x/y", lambda _: lambda _: 0.0, rounds=4, repetitions=1)
    timers = {OURS: lambda _: float(next(numbers)), TORCH: lambda _: 2.0 * next(numbers)}
    result = measure(case, timers, Manner(least=True))
    assert (result.summaries[OURS].median, result.summaries[TORCH].median) == (10.0, 22.0)
    assert result.ratio(TORCH) == 2.2
    assert not replace(result, neighbours_cores=2.0).is_disturbed
    assert next(numbers, None) is None


def test_busy_neighbours_make_times_doubtful_and_bytes_not():
    result = Result("x/y", {OURS: summary(1.0)}, 0.5, "seconds")
    assert result.is_disturbed
    assert not replace(result, unit="bytes").is_disturbed
    assert not replace(result, neighbours_cores=None).is_disturbed


def test_every_contender_has_its_turn_in_each_round_and_the_first_one_changes():
    order = []

    def timer(name):
        def run(repetitions):
            order.append(name)
            return 0.5 * repetitions

        return run

    case = Case("x/y", lambda _: timer("unused"), rounds=2, repetitions=4)
    result = measure(case, {"a": timer("a"), "b": timer("b")}, Manner())
    assert order == ["a", "b", "b", "a"]
    assert result.summaries["a"] == Summary(0.5, 0.5, 0.5, 1.0, 2, 4)


def test_repetitions_follow_from_the_wanted_time_of_a_round():
    case = Case("x/y", lambda _: lambda n: n / 1000, rounds=3, round_seconds=0.5)
    assert measure(case, {"a": lambda n: n / 1000}, Manner()).summaries["a"].repetitions == 500


@pytest.mark.soak  # on a busy machine a thread may rest for longer than the harness looks
def test_a_turn_ends_when_no_thread_works_any_more():
    ends = []

    def spin():
        until = time.perf_counter() + 0.2
        while time.perf_counter() < until:
            pass
        ends.append(time.perf_counter())

    def timer(_):
        threading.Thread(target=spin).start()
        return 0.0

    turns(Case("x/y", lambda _: timer, repetitions=1), timer)(1)
    assert ends


def test_contenders_that_do_different_work_are_not_compared():
    check_agreement("x/y", {OURS: [1.0, 0.0], NUMPY: [1.001, 0.0]})
    for others in ([1.1, 0.0], [1.0], [math.nan, 0.0]):
        with pytest.raises(RuntimeError, match=r"x/y: numpy and ours do different work"):
            check_agreement("x/y", {OURS: [1.0, 0.0], NUMPY: others})


def test_names_are_unique_and_lead_back_to_their_cases():
    cases = list(all_cases())
    assert len({case.name for case in cases}) == len(cases)
    assert {family_of(case.name) for case in cases} == set(FAMILIES)
    assert all(OURS in case.contenders for case in cases)
    assert case_of(cases[-1].name) == cases[-1]


@pytest.mark.parametrize(
    "name",
    [
        "ops/add 1, recorded",
        "memory/tanh 10,000",
        pytest.param("reductions/max of 1,000 x 1,000, axis 0", marks=pytest.mark.soak),
        pytest.param("reductions/softmax 64 x 10", marks=pytest.mark.soak),
        "reductions/cross entropy 64 x 10 and backward",
        "products/64 x 64 @ (128 x 64).T",
        pytest.param("training/64-128-10 x 64, momentum", marks=pytest.mark.soak),
        "inference/64-128-10 x 64",
        "optimizers/adam, 1,000 x 100",
        "scopes/empty",
        "scaling/create, tensors in a scope: 1,000",
        pytest.param("scaling/scope, nested: 10", marks=pytest.mark.soak),
        "scaling/add 1, threads: 4",
        pytest.param("scaling/training step, parameters: 10", marks=pytest.mark.soak),
        pytest.param("scaling/optimizer step, parameters: 10", marks=pytest.mark.soak),
    ],
)
def test_cases_run_and_their_results_agree(name: str):
    case = case_of(name)
    contenders = [who for who in case.contenders if who != TORCH]
    tiny = replace(case, contenders=tuple(contenders), rounds=1, repetitions=case.repetitions or 1)
    (result,) = run_together([tiny], Manner())
    assert list(result.summaries) == contenders


def test_only_the_requested_libraries_are_imported():
    program = (
        "import sys; from benchmarks.catalogue import case_of; from benchmarks.contenders import library\n"
        "case_of('ops/add 1').build(library('numpy'))\n"
        "sys.exit(bool({'torch', 'tensor', 'scopes'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_pytorch_trains_the_same():
    pytest.importorskip("torch")
    case = case_of("training/64-128-10 x 64, adam")
    assert case.check is not None
    figures = {name: case.check(library(name)) for name in (OURS, NUMPY, TORCH)}
    check_agreement(case.name, figures)
