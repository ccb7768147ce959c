"""Programs as people write them, under scopes: the same numbers, a flat count, and each leak by its line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

import scopes
from scopes import TensorDisposedError, new_dispose_scope, statistics

torch = pytest.importorskip("torch")
import scopes.torch  # noqa: E402
from tests.torch_programs import LEAKS, PROGRAMS, Program  # noqa: E402

both = pytest.mark.parametrize("exact", [False, True], ids=["functions", "operators"])
each_program = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
STEPS = 8


@pytest.fixture(autouse=True)
def on_one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of so small tensors, more only wait for each other
    yield
    torch.set_num_threads(threads)


def train(program: Program, *, scoped: bool) -> tuple[list[float], list[int]]:
    """Return the losses, and how many tensors are alive after each step."""
    losses, alive = [], []
    for _ in range(STEPS):
        with new_dispose_scope("step") if scoped else nullcontext() as scope:
            losses.append(program.step())
            if scope is not None:
                scope.move_to_outer(program.state())
        alive.append(statistics.of(torch.Tensor).live_count)
    return losses, alive


def parameters(program: Program) -> list[list[Any]]:
    return [
        [p.tolist(), p.grad.tolist()] for model in program.models for p in model.parameters() if p is not None
    ]


@each_program
@both
def test_a_scope_for_each_step_changes_no_bit_and_keeps_the_count_flat(
    program: type[Program], exact: bool
) -> None:
    plain = program()
    losses, _ = train(plain, scoped=False)
    with scopes.torch.owning(exact=exact):
        scoped = program()
        scoped_losses, alive = train(scoped, scoped=True)
    assert scoped_losses == losses
    assert parameters(scoped) == parameters(plain)
    assert len(set(alive)) == 1, alive


@each_program
@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_named_by_its_line(program: type[Program], leak: str) -> None:
    with scopes.track(), scopes.torch.owning():
        leaky = program(leak)
        train(leaky, scoped=False)
        report = scopes.leaks()
    rows = [row for row in report.rows if f"# makes {leak}" in row.site.text]
    assert len(rows) == 1, report
    if leak == "total":  # one tensor, whose graph has grown
        assert rows[0].count == 1
        return
    assert rows[0].count == STEPS
    # Before all that does not grow, unless it is less than a hundredth of that. The state and the gradients
    # that `optimizer.step()` is the first to read may come before it.
    before = [
        row for row in report.rows[: report.rows.index(rows[0])] if "optimizer.step()" not in row.site.text
    ]
    assert all(row.is_growing for row in before) or rows[0].weight * 100 < report.nbytes, report


@each_program
def test_a_program_without_leaks_shows_no_growth(program: type[Program]) -> None:
    with scopes.track(), scopes.torch.owning():
        clean = program()
        train(clean, scoped=True)
        report = scopes.leaks()
    assert not [row for row in report.rows if row.scope == ("step",) and row.count_per_round], report


@each_program
@pytest.mark.parametrize("leak", [leak for leak in LEAKS if leak != "total"])
def test_a_scope_frees_the_memory_of_a_leak(program: type[Program], leak: str) -> None:
    with scopes.torch.owning():
        leaky = program(leak)
        losses, alive = train(leaky, scoped=True)
    assert len(set(alive)) == 1, alive
    assert losses == train(program(leak), scoped=False)[0]


@each_program
def test_a_total_that_was_not_moved_out_is_a_clear_error(program: type[Program]) -> None:
    with scopes.track(), scopes.torch.owning():
        leaky = program("total")
        with pytest.raises(TensorDisposedError, match=r"its dispose scope 'step' ended.*torch_programs"):
            train(leaky, scoped=True)
