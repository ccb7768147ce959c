"""What L-BFGS keeps, and what it leaves when a step fails. Its steps: see `test_optim_against_torch`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
import tensor
from nn.optim import LBFGS
from scopes import new_dispose_scope
from tensor import Tensor


class Descent:
    """Two parameters, and a loss whose minimum is at 2."""

    def __init__(self, **options: Any) -> None:
        self.a = nn.Parameter(tensor.ones((3,), dtype="float64"))
        self.b = nn.Parameter(tensor.zeros((2, 2), dtype="complex128"))
        self.optimizer = LBFGS([self.a, self.b], **options)
        self.calls = 0
        self.fails_at = 0

    def closure(self) -> Tensor:
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("no loss this time")
        self.optimizer.zero_grad()
        loss = ((self.a - 2) ** 4).sum() + (self.b - 2).abs().square().sum()
        loss.backward()
        return loss

    def values(self) -> list[Any]:
        return [x.detach().clone().tolist() for x in (self.a, self.b)]


@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
def test_the_minimum_is_found_for_complex_parameters_too(line_search_fn):
    descent = Descent(lr=1.0 if line_search_fn else 0.2, line_search_fn=line_search_fn)
    for _ in range(10):
        descent.optimizer.step(descent.closure)
    np.testing.assert_allclose(descent.a.detach().numpy(), 2, atol=0.05)
    np.testing.assert_allclose(descent.b.detach().numpy(), 2, atol=0.05)


def test_a_long_step_that_does_not_change_the_loss_is_the_last_one():
    x = nn.Parameter(tensor.ones((1,), dtype="float64"))
    optimizer = LBFGS([x], lr=2.0)
    losses = []

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = x.square().sum()
        loss.backward()
        losses.append(loss.item())
        return loss

    optimizer.step(closure)
    # The step leads across the minimum, to a place as high.
    assert x.tolist() == [-1.0]
    assert losses == [1.0, 1.0]


@pytest.mark.parametrize("line_search_fn", [None, "strong_wolfe"])
@pytest.mark.parametrize("fails_at", [1, 2, 4])
def test_a_closure_that_fails_leaves_parameters_and_state_as_they_were(line_search_fn, fails_at):
    descent = Descent(lr=0.1, line_search_fn=line_search_fn, max_iter=4)
    descent.optimizer.step(descent.closure)
    before = descent.values(), str(descent.optimizer.state_dict())
    descent.calls, descent.fails_at = 0, fails_at
    with pytest.raises(RuntimeError, match="this time"):
        descent.optimizer.step(descent.closure)
    assert (descent.values(), str(descent.optimizer.state_dict())) == before
    descent.optimizer.step(descent.closure)


def test_a_step_leaves_nothing_but_the_state_and_the_loss(window):
    descent = Descent(lr=0.05, history_size=4, max_iter=6)
    live = window().live_count
    for _ in range(4):
        with new_dispose_scope():
            descent.optimizer.step(descent.closure)
        descent.optimizer.zero_grad()
        held = descent.optimizer.state[descent.a]
        # The direction, the gradient, and two vectors for each gradient that is remembered.
        assert window().live_count == live + 2 + 2 * len(held["old_dirs"])
    assert len(held["old_dirs"]) == len(held["old_stps"]) == len(held["ro"]) == 4
    assert descent.optimizer.nbytes == (2 + 8) * 11 * 8
    descent.optimizer.dispose()
    assert window().live_count == live


def test_training_continues_from_a_saved_state():
    first, second = (Descent(lr=0.1, max_iter=4) for _ in range(2))
    first.optimizer.step(first.closure)
    second.optimizer.step(second.closure)
    saved = first.optimizer.state_dict()
    fresh = LBFGS([second.a, second.b])
    fresh.load_state_dict(saved)
    second.optimizer = fresh
    for each in (first, second):
        each.optimizer.step(each.closure)
    assert first.values() == second.values()


def test_a_state_of_other_parameters_is_named_and_not_loaded():
    descent = Descent()
    descent.optimizer.step(descent.closure)
    other = LBFGS([nn.Parameter(tensor.ones((3,))), nn.Parameter(tensor.ones((2, 2)))])
    with pytest.raises(ValueError, match=r"\(11,\).*7 elements"):
        other.load_state_dict(descent.optimizer.state_dict())
    assert not other.state


def test_a_parameter_without_a_gradient_stays():
    a, b = (nn.Parameter(tensor.ones((2,))) for _ in range(2))
    optimizer = LBFGS([a, b])

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (a * a).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(a.detach().numpy(), 0, atol=1e-6)
    assert b.tolist() == [1.0, 1.0]
