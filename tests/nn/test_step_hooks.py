"""Hooks of optimizers, which run before and after each step."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import nn
import tensor


def sgd() -> tuple[nn.Parameter, nn.optim.SGD]:
    x = nn.Parameter(tensor.tensor([1.0]))
    return x, nn.optim.SGD([x], lr=0.5)


def test_hooks_run_around_a_step_in_the_order_of_registration() -> None:
    x, optimizer = sgd()
    seen: list[Any] = []
    optimizer.register_step_post_hook(lambda *args: seen.append(("after", x.item(), *args)))
    for name in ("first", "second"):
        optimizer.register_step_pre_hook(lambda *args, name=name: seen.append((name, x.item(), *args)))
    (x * 2).sum().backward()
    optimizer.step()
    given = (optimizer, (optimizer,), {})
    assert seen == [("first", 1.0, *given), ("second", 1.0, *given), ("after", 0.0, *given)]


def test_a_removed_hook_does_not_run() -> None:
    _, optimizer = sgd()
    seen: list[str] = []
    for register in (optimizer.register_step_pre_hook, optimizer.register_step_post_hook):
        register(lambda *_: seen.append("no")).remove()
    optimizer.step()
    assert not seen


def test_a_hook_before_a_step_may_replace_its_arguments() -> None:
    _, optimizer = sgd()
    optimizer.register_step_pre_hook(lambda self, args, kwargs: ((self, lambda: 3), kwargs))
    assert optimizer.step() == 3
    optimizer.register_step_pre_hook(lambda *_: 5)
    with pytest.raises(TypeError, match="None, or a tuple of the new args and kwargs, not int"):
        optimizer.step()


def test_hooks_run_around_the_step_of_other_optimizers() -> None:
    class Mine(nn.optim.Optimizer):
        def step(self, closure: Any = None) -> Any:
            return closure()

    x = nn.Parameter(tensor.tensor([1.0]))
    for optimizer in (Mine([x], {}), nn.optim.LBFGS([x])):
        seen: list[object] = []
        optimizer.register_step_post_hook(lambda self, *_, seen=seen: seen.append(self))
        assert optimizer.step(lambda: (x * 0).sum()).item() == 0
        assert seen == [optimizer]


def test_a_copy_of_an_optimizer_has_no_hooks() -> None:
    _, optimizer = sgd()
    optimizer.register_step_pre_hook(lambda *_: pytest.fail("it runs"))
    copy.deepcopy(optimizer).step()
    pickle.loads(pickle.dumps(optimizer)).step()


def test_a_step_that_calls_the_step_of_its_base_runs_the_hooks_once_each_time_also_after_an_error() -> None:
    class Derived(nn.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    def fail() -> Any:
        raise ValueError("closure")

    optimizer = Derived([nn.Parameter(tensor.tensor([1.0]))], lr=0.5)
    seen: list[str] = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.step()
    with pytest.raises(ValueError, match="closure"):
        optimizer.step(fail)
    optimizer.step()
    assert seen == ["before", "after", "before", "before", "after"]
