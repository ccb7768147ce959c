"""Statistics and tracking of PyTorch's tensors see each tensor that is created, owned by a scope or not."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any

import pytest

import scopes
from scopes import new_dispose_scope, statistics
from scopes.testing import assert_dispose_counts

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402

MODES = pytest.mark.parametrize("mode", ["default", "exact", "tracked"])


def owning(mode: str) -> Any:
    return scopes.torch.owning(exact=mode == "exact")


def tracking(mode: str) -> Any:
    return scopes.track() if mode == "tracked" else nullcontext()


def figures() -> tuple[int, int, int]:
    found = statistics.of(torch.Tensor).snapshot()
    return found.created_outside_scope_count, found.created_in_scope_count, found.live_count


@pytest.fixture(autouse=True)
def zero() -> None:
    statistics.reset()


# Counts.


@MODES
def test_tensors_without_a_scope_are_alive_at_once(mode: str) -> None:
    kept: list[Any] = []
    with tracking(mode), owning(mode):
        with pytest.raises(AssertionError, match="live_count is 2"), assert_dispose_counts(live_count=0):
            kept += [torch.ones(9), torch.ones(9)]
        assert figures() == (2, 0, 2)


@MODES
def test_tensors_in_a_scope_are_alive_at_once(mode: str) -> None:
    with tracking(mode), owning(mode), new_dispose_scope():
        _kept = torch.ones(9)
        assert str(statistics.of(torch.Tensor)).startswith("live_count: 1; ")
        assert statistics.this_thread.created_in_scope_count == 1


@MODES
def test_tensors_that_lived_between_two_reads_count_as_finalized(mode: str) -> None:
    with tracking(mode), owning(mode):
        for _ in range(100):
            torch.ones(3)
        assert figures() == (100, 0, 0)
        with new_dispose_scope():
            for _ in range(100):
                torch.ones(3)
            assert figures() == (100, 100, 0)
        assert statistics.of(torch.Tensor).finalized_count == 200


@MODES
def test_a_collection_between_changes_no_figure(mode: str) -> None:
    with tracking(mode), owning(mode), new_dispose_scope():
        kept = []
        for i in range(100):
            kept.append(torch.ones(3))
            torch.ones(4)
            if i % 10 == 0:
                gc.collect(0)
        assert figures() == (0, 200, 100)


def test_a_fresh_program_has_created_nothing() -> None:
    program = (
        "import torch, scopes, scopes.torch\n"
        "print(scopes.statistics)\n"
        "with scopes.torch.owning():\n"
        "    print(scopes.statistics)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(figure.endswith(": 0") for line in lines for figure in line.split("; "))


@MODES
def test_parameters_and_gradients_count_without_an_owner(mode: str) -> None:
    with tracking(mode), owning(mode), new_dispose_scope() as scope:
        model = torch.nn.Linear(3, 3)
        model(torch.ones(2, 3)).sum().backward()
        gradients = [p.grad for p in model.parameters()]
        assert statistics.of(torch.nn.Parameter).live_count == 2
        assert statistics.of(torch.nn.Parameter).created_in_scope_count == 0
        assert not any(x in scope for x in [*model.parameters(), *gradients])
        assert statistics.live_count == 4
    assert statistics.live_count == 4
    assert all(x.isfinite().all() for x in gradients)


@MODES
def test_tensors_of_other_threads_count_and_have_no_owner(mode: str) -> None:
    kept: list[Any] = []
    with tracking(mode), owning(mode), new_dispose_scope() as scope:
        thread = threading.Thread(target=lambda: kept.extend(torch.ones(3) for _ in range(5)))
        thread.start()
        thread.join()
        assert figures() == (5, 0, 5)
        assert not any(x in scope for x in kept)
    assert all(x.sum() == 3 for x in kept)
    assert statistics.this_thread.created_outside_scope_count == 0


@MODES
def test_a_reset_forgets_what_was_not_read_yet(mode: str) -> None:
    with tracking(mode), owning(mode):
        kept = [torch.ones(3) for _ in range(5)]
        statistics.reset()
        assert figures() == (0, 0, 0)
        kept.clear()
        assert figures() == (0, 0, 0)


@MODES
def test_wrappers_of_transformations_that_are_alive_do_not_count(mode: str) -> None:
    with tracking(mode), owning(mode):
        x = torch.ones(3, 2)

        def norm(row: Any) -> Any:
            assert statistics.live_count == 1
            return row.sum()

        assert torch.func.vmap(norm)(x).tolist() == [2, 2, 2]


def test_tensors_can_be_swapped() -> None:
    with scopes.torch.owning():
        x, y = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.zeros(3))
        assert figures() == (4, 0, 2)
        torch.utils.swap_tensors(x, y)
        assert x.tolist() == [0, 0, 0]
        del x
        assert figures() == (4, 0, 1)


# Tracking.


def test_what_nobody_owns_is_tracked() -> None:
    def make_models() -> list[Any]:
        return [torch.nn.Linear(30, 30) for _ in range(3)]

    def make_gradients(model: Any) -> list[Any]:
        model(torch.ones(2, 30)).sum().backward()
        return [parameter.grad for parameter in model.parameters()]

    def make_copies(model: Any) -> Any:
        return [parameter.detach().clone() for parameter in model.parameters()]

    with scopes.track(), scopes.torch.owning():
        models = make_models()
        gradients = make_gradients(models[0])
        copies = make_copies(models[0])
        report = scopes.leaks()
    assert [row.count for row in report.rows] == [6, 2, 2]
    assert sum(row.nbytes for row in report.rows) == (3 + 1 + 1) * (900 + 30) * 4
    assert len(gradients) == len(copies) == 2


def test_deep_copies_of_networks_are_tracked() -> None:
    model = torch.nn.Linear(30, 30)
    with scopes.track(), scopes.torch.owning():
        copies = [copy.deepcopy(model) for _ in range(3)]
        assert sum(row.count for row in scopes.leaks().rows) == 6
    assert len(copies) == 3


def test_tensors_between_scopes_are_tracked() -> None:
    kept = []
    with scopes.track(), scopes.torch.owning():
        for _ in range(3):
            with new_dispose_scope():
                torch.ones(3)
            kept.append(torch.ones(50))
        (row,) = scopes.leaks().rows
    assert (row.count, row.nbytes) == (3, 600)


def test_tensors_of_all_threads_are_tracked_with_their_lines() -> None:
    kept: list[Any] = []

    def work(_: int = 0) -> Any:
        return torch.ones(50)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))  # the threads are older than tracking
        with scopes.track(), scopes.torch.owning():
            futures = [pool.submit(work, i) for i in range(4)]
            wait(futures)
            kept += futures
            kept += pool.map(work, range(3))
            thread = threading.Thread(target=lambda: kept.append(work()))
            thread.start()
            thread.join()
            (row,) = scopes.leaks().rows
    assert (row.count, row.nbytes) == (8, 8 * 200)
    assert str(row.site).endswith(".work")


def test_what_was_created_before_tracking_is_not_tracked() -> None:
    with scopes.torch.owning():
        _old = torch.ones(9)
        with scopes.track():
            assert not scopes.leaks().rows


HOLDER = """
import torch, torch.distributed
import scopes.torch

class Holder:
    def __init__(self, *held):
        self.held = held

with scopes.track(), scopes.torch.owning():
    reduce_op = torch.distributed.reduce_op
    kept = Holder(reduce_op, [reduce_op], {"x": torch.ones(9)})
    print(scopes.leaks())
"""


def test_a_report_shows_no_warning_of_deprecated_objects() -> None:
    # In a new process: among the objects of other tests, the search would end before it finds the holder.
    command = [sys.executable, "-W", "error", "-c", HOLDER]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "held by kept.held" in done.stdout
