"""The warning about graphs of PyTorch that grow over forward passes without a backward."""

from __future__ import annotations

import pickle
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import scopes.torch
from scopes import new_dispose_scope, track
from scopes.torch import GraphGrowthWarning, warn_on_graph_growth

FILE = Path(__file__).name


@pytest.fixture(autouse=True)
def early() -> Iterator[None]:
    """Warn at 20 uses that hold 10 kB, so that the programs are short."""
    warn_on_graph_growth(20, held_bytes="10 kB")
    yield
    warn_on_graph_growth()


MODEL = torch.nn.Sequential(torch.nn.Linear(10, 50), torch.nn.Tanh(), torch.nn.Linear(50, 1))
STEPS = 1000


def sum_of_losses() -> None:
    total = torch.zeros(())
    for _ in range(STEPS):
        with new_dispose_scope() as scope:
            total = scope.move_to_outer(total + MODEL(torch.ones(8, 10)).sum())


def sum_in_place() -> None:
    total = torch.zeros(())
    for _ in range(STEPS):
        with new_dispose_scope():
            total += MODEL(torch.ones(8, 10)).sum()


def hidden_state() -> None:
    hidden = torch.ones(8, 10)
    for _ in range(STEPS):
        with new_dispose_scope() as scope:
            hidden = scope.detach(hidden + MODEL(hidden))


def list_of_losses() -> None:
    losses = []
    for _ in range(STEPS):
        with new_dispose_scope() as scope:
            losses.append(scope.detach(MODEL(torch.ones(8, 10)).sum()))


def one_scope_around_the_loop() -> None:
    with new_dispose_scope():
        total = torch.zeros(())
        kept = []
        for _ in range(STEPS):
            kept.append(MODEL(torch.ones(8, 10)))
            total = total + kept[-1].sum()


GROWING = [sum_of_losses, sum_in_place, hidden_state, list_of_losses, one_scope_around_the_loop]


@pytest.mark.parametrize("program", GROWING, ids=lambda program: program.__name__)
def test_growing_graphs_warn_inside_owning(program: Callable[[], None]) -> None:
    with pytest.warns(GraphGrowthWarning) as caught, scopes.torch.owning():
        program()
    assert len(caught) == 1
    warning = caught[0].message
    assert isinstance(warning, GraphGrowthWarning)
    assert 20 <= warning.steps <= STEPS
    assert warning.held_bytes >= 20 * 8 * 50 * 4
    assert warning.parameter in {"float32[50, 10]", "float32[1, 50]"}
    assert Path(caught[0].filename).name == FILE
    assert "With scopes.track() this names the line" in str(warning)


@pytest.mark.parametrize("program", GROWING[:-1], ids=lambda program: program.__name__)
def test_tracking_names_the_line_of_a_result(program: Callable[[], None]) -> None:
    with pytest.warns(GraphGrowthWarning) as caught, track(), scopes.torch.owning():
        program()
    (warning,) = [each.message for each in caught]
    assert isinstance(warning, GraphGrowthWarning)
    assert f"{FILE}:" in warning.line
    assert f"in {program.__name__}" in warning.line


def test_growing_graphs_warn_while_tracking_without_scopes() -> None:
    def sum_up() -> None:
        total = torch.zeros(())
        for _ in range(STEPS):
            total = total + MODEL(torch.ones(8, 10)).sum()

    with pytest.warns(GraphGrowthWarning, match="sum_up"), track():
        sum_up()


def training() -> None:
    optimizer = torch.optim.SGD(MODEL.parameters(), 0.001)
    losses = []
    for _ in range(STEPS):
        with new_dispose_scope() as scope:
            optimizer.zero_grad()
            loss = MODEL(torch.ones(8, 10)).sum()
            loss.backward()
            optimizer.step()
            losses.append(scope.detach(loss))  # a graph without saved values


def evaluation() -> None:
    total = torch.zeros(())
    with torch.no_grad():
        for _ in range(STEPS):
            with new_dispose_scope() as scope:
                total = scope.move_to_outer(total + MODEL(torch.ones(8, 10)).sum())


def recurrence() -> None:
    cell = torch.nn.RNNCell(10, 10)
    for _ in range(STEPS // 20):
        with new_dispose_scope():
            hidden = torch.ones(8, 10)
            for _ in range(60):
                with new_dispose_scope() as scope:
                    hidden = scope.move_to_outer(cell(hidden, hidden))
            hidden.sum().backward()


@pytest.mark.parametrize("program", [training, evaluation, recurrence], ids=lambda program: program.__name__)
@pytest.mark.parametrize("is_tracking", [False, True])
def test_other_programs_do_not_warn(program: Callable[[], None], is_tracking: bool) -> None:
    with warnings.catch_warnings(), scopes.torch.owning():
        warnings.simplefilter("error")
        if is_tracking:
            with track():
                program()
        else:
            program()


def test_limits_and_none_silence_the_warning() -> None:
    for arguments in ((None, 10), (10 * STEPS, 10), (20, "1 GiB")):
        warn_on_graph_growth(arguments[0], held_bytes=arguments[1])
        with warnings.catch_warnings(), scopes.torch.owning():
            warnings.simplefilter("error")
            sum_of_losses()


def test_the_warning_comes_once_until_it_is_set_again() -> None:
    for _ in range(2):
        warn_on_graph_growth(20, held_bytes="10 kB")
        with pytest.warns(GraphGrowthWarning), scopes.torch.owning():
            sum_of_losses()
        with warnings.catch_warnings(), scopes.torch.owning():
            warnings.simplefilter("error")
            sum_of_losses()


def test_the_warning_can_be_an_error() -> None:
    with warnings.catch_warnings(), pytest.raises(GraphGrowthWarning), scopes.torch.owning():
        warnings.simplefilter("error")
        sum_of_losses()


def test_the_warning_pickles_and_bad_arguments_are_refused() -> None:
    warning = pickle.loads(pickle.dumps(GraphGrowthWarning(20, 10_000, "float32[3]", "a.py:1 in f")))
    assert (warning.steps, warning.held_bytes, warning.line) == (20, 10_000, "a.py:1 in f")
    assert "A result of them was made at a.py:1 in f." in str(warning)
    wrongs: list[tuple[Any, type[Exception]]] = [(1, ValueError), (True, TypeError), ("many", TypeError)]
    for wrong, error in wrongs:
        with pytest.raises(error, match="warn_on_graph_growth takes"):
            warn_on_graph_growth(wrong)
    with pytest.raises(ValueError, match="held_bytes"):
        warn_on_graph_growth(held_bytes="much")


def test_a_thread_that_grows_a_graph_is_seen_by_the_main_thread() -> None:
    done = threading.Event()

    def grow() -> None:
        with scopes.torch.owning():
            sum_of_losses()
        done.set()

    def wait() -> None:
        while not done.wait(0.001):
            pass

    thread = threading.Thread(target=grow)
    thread.start()
    with pytest.warns(GraphGrowthWarning):
        wait()
    thread.join()


def test_no_search_changes_gradients() -> None:
    def gradients(is_searching: bool) -> list[Any]:
        torch.manual_seed(0)
        warn_on_graph_growth(20 if is_searching else None, held_bytes="1 TB")
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        total = torch.zeros(())
        with scopes.torch.owning():
            for _ in range(600):
                with new_dispose_scope() as scope:
                    total = scope.move_to_outer(total + model(torch.rand(2, 4)).sum())
            total.backward()
        return [parameter.grad for parameter in model.parameters()]

    for a, b in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(a, b)
