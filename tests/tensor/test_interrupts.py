"""Interrupts at every call of a training step: recording goes on, and no object and no byte is left."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import nn
import tensor
from scopes import current_dispose_scope, new_dispose_scope, statistics
from tensor import Tensor, autograd, memory
from tests.interrupts import interrupted_at


@pytest.fixture(autouse=True)
def collector_is_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Cube(autograd.Function):
    """A user's own op."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class Training:
    """A small network with all that backward meets: views, a hook, a user's op, a checkpoint."""

    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3))
        self.last = nn.Linear(3, 2)
        self.parameters = [*self.model.parameters(), *self.last.parameters()]
        self.optimizer = nn.optim.SGD(self.parameters, lr=0.1, momentum=0.9)
        self.x = tensor.ones((5, 3))
        self.target = tensor.zeros((5,), dtype=tensor.int64)

    def forward(self) -> Tensor:
        y = autograd.checkpoint(self.model, self.x)
        y.register_hook(lambda grad: grad * 2)
        return nn.functional.cross_entropy(self.last(Cube.apply(y) + y.T.T), self.target)

    def step(self) -> None:
        with new_dispose_scope("step"):
            self.optimizer.zero_grad()
            self.forward().backward()
            self.optimizer.step()

    def what_is_there(self) -> tuple[object, ...]:
        for parameter in self.parameters:
            parameter.grad = None
        return (
            statistics.live_count,
            memory.statistics().bytes_live,
            tensor.is_grad_enabled(),
            current_dispose_scope(),
        )


def test_an_interrupt_at_any_call_of_a_training_step_leaves_recording_on_and_nothing_behind():
    training = Training()
    training.step()
    start = training.what_is_there()
    event = 1
    while interrupted_at(event, training.step, KeyboardInterrupt):
        assert training.what_is_there() == start, f"interrupted at call {event}"
        event += 1
    assert event > 200
    training.step()
    assert all(parameter.grad is not None for parameter in training.parameters)
