"""Reports name the line of `backward()` for gradients, not the line that first reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

import scopes
import scopes.torch
from scopes import new_dispose_scope

Weights = list[Any]


def new_weights(count: int) -> Weights:
    return [torch.ones(1000, requires_grad=True) for _ in range(count)]


def loss_of(weights: Weights) -> Any:
    return sum((x**2).sum() for x in weights)


def rows_of_gradients(work: Callable[[], object]) -> dict[str, int]:
    """Return how many tensors of 1000 numbers each line has created in `work`, whose result stays alive."""
    with scopes.track():
        kept = work()
        report = scopes.leaks()
        assert kept is not None
    return {row.site.text: row.count for row in report.rows if row.nbytes == 4000 * row.count}


@pytest.mark.parametrize("exact", [None, False, True])
def test_gradients_have_the_line_of_the_backward(exact: bool | None) -> None:
    weights = new_weights(3)

    def work() -> Any:
        loss_of(weights).backward()
        return [x.grad for x in weights]

    def in_a_scope() -> Any:
        with scopes.torch.owning(exact=bool(exact)), new_dispose_scope():
            return work()

    found = rows_of_gradients(work if exact is None else in_a_scope)
    assert found == {"loss_of(weights).backward()": 3}


def test_each_gradient_has_the_line_of_its_own_backward() -> None:
    first, second, third = new_weights(1), new_weights(2), new_weights(4)

    def work() -> Any:
        loss_of(first + third).backward()
        loss_of(second + third).backward()  # adds to the gradients of the first line
        return [x.grad for x in first + second + third]

    assert rows_of_gradients(work) == {
        "loss_of(first + third).backward()": 5,
        "loss_of(second + third).backward()  # adds to the gradients of the first line": 2,
    }


def test_new_gradients_of_each_step_have_their_line() -> None:
    of_critic, of_actor = new_weights(2), new_weights(3)
    optimizer = torch.optim.SGD(of_critic + of_actor, lr=0.1)

    def work() -> Any:
        kept: list[Any] = []
        for _ in range(5):
            optimizer.zero_grad()
            loss_of(of_critic).backward()
            loss_of(of_actor).backward()
            optimizer.step()
            kept += [x.grad for x in of_critic + of_actor]
        return kept

    assert rows_of_gradients(work) == {
        "loss_of(of_critic).backward()": 10,
        "loss_of(of_actor).backward()": 15,
    }


def test_a_retained_gradient_of_several_lines_has_the_line_that_reads_it() -> None:
    weights = new_weights(1)

    def work() -> Any:
        loss_of(weights).backward()
        middle = weights[0] * 2
        middle.retain_grad()
        (middle**2).sum().backward()
        return middle.grad

    found = rows_of_gradients(work)
    assert found["loss_of(weights).backward()"] == 1
    assert found["return middle.grad"] == 1


def test_gradients_of_autograd_grad_have_its_line() -> None:
    weights = new_weights(3)

    def work() -> Any:
        return torch.autograd.grad(loss_of(weights), weights)

    assert rows_of_gradients(work) == {"return torch.autograd.grad(loss_of(weights), weights)": 3}


def test_a_gradient_read_without_a_backward_has_the_line_that_reads_it() -> None:
    weights = new_weights(1)
    loss_of(weights).backward()

    def work() -> Any:
        return weights[0].grad

    assert rows_of_gradients(work) == {"return weights[0].grad": 1}
