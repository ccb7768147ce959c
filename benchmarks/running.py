"""Ways to run cases: all contenders in one process, or each in its own process."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import groupby

from benchmarks.catalogue import family_of
from benchmarks.contenders import CONTENDERS, OURS, library
from benchmarks.harness import Case, Manner, Result, check_agreement, frozen, measure, turns
from benchmarks.workers import Worker


def run_together(cases: Iterable[Case], manner: Manner) -> Iterator[Result]:
    """Measure each case in this process."""
    for case in cases:
        libraries = [library(name) for name in case.contenders]
        if case.check is not None:
            check_agreement(case.name, {own.name: case.check(own) for own in libraries})
        timers = {own.name: turns(case, case.build(own)) for own in libraries}
        with frozen():
            yield measure(case, timers, manner)
        del timers


def run_alone(cases: Iterable[Case], manner: Manner) -> Iterator[Result]:
    """Measure each case with a process for each contender. The cases of a family share these processes."""
    for _, family in groupby(cases, lambda case: family_of(case.name)):
        with ExitStack() as stack:
            workers = {name: stack.enter_context(Worker(name)) for name in CONTENDERS}
            for case in family:
                yield _measure_with({name: workers[name] for name in case.contenders}, case, manner)


def run_on_pythons(
    cases: Iterable[Case], pythons: Iterable[str], manner: Manner
) -> tuple[list[Result], dict[str, dict[str, str]]]:
    """Measure ours on each interpreter. Return the versions of each, by the name in the results."""
    results, versions = [], {}
    for _, family in groupby(cases, lambda case: family_of(case.name)):
        with ExitStack() as stack:
            workers = {}
            for python in pythons:
                worker = stack.enter_context(Worker(OURS, python))
                found = worker.versions()
                versions[found["python"]] = found
                workers[found["python"]] = worker
            results += [_measure_with(workers, case, manner) for case in family]
    return results, versions


def announced(cases: list[Case]) -> Iterator[Case]:
    """Yield the cases, and print the name of each to the standard error stream."""
    for number, case in enumerate(cases, start=1):
        print(f"[{number}/{len(cases)}] {case.name}", file=sys.stderr, flush=True)
        yield case


def _measure_with(workers: Mapping[str, Worker], case: Case, manner: Manner) -> Result:
    check_agreement(case.name, {name: worker.check(case.name) for name, worker in workers.items()})
    timers = {name: worker.build(case.name) for name, worker in workers.items()}
    try:
        return measure(case, timers, manner, processes=[worker.process for worker in workers.values()])
    finally:
        for worker in workers.values():
            worker.drop()
