"""Interrupts at every call of a training step, and of saving and loading files: nothing is lost or left."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
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

    def __init__(self, optimizer: Callable[..., nn.optim.Optimizer]) -> None:
        self.model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3))
        self.last = nn.Linear(3, 2)
        self.parameters = [*self.model.parameters(), *self.last.parameters()]
        self.optimizer = optimizer(self.parameters)
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


def sgd(parameters: list[nn.Parameter]) -> nn.optim.SGD:
    return nn.optim.SGD(parameters, lr=0.1, momentum=0.9)


@pytest.mark.parametrize("optimizer", [sgd, nn.optim.Adam])
def test_an_interrupt_at_any_call_of_a_training_step_leaves_recording_on_and_nothing_behind(optimizer):
    training = Training(optimizer)
    training.step()
    start = training.what_is_there()
    event = 1
    while interrupted_at(event, training.step, KeyboardInterrupt):
        assert training.what_is_there() == start, f"interrupted at call {event}"
        event += 1
    assert event > 200
    training.step()
    assert all(parameter.grad is not None for parameter in training.parameters)


@pytest.mark.parametrize(
    "write",
    [
        lambda y, x: y.mul_(x[0]),
        lambda y, x: y.sigmoid_(),
        lambda y, x: y.__setitem__(1, x[0]),
        lambda y, x: y[1:].add_(1),
        lambda y, x: y.t_(),
    ],
)
def test_a_recorded_write_interrupted_at_any_call_leaves_values_and_histories_that_fit(write) -> None:
    is_whole = False
    event = 1
    while not is_whole:
        x = tensor.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
        y = x * 2
        tensors = y, y.T, y[1:]
        before = [(t.shape, t.tolist(), t.grad_fn) for t in tensors]
        is_whole = not interrupted_at(event, lambda y=y, x=x: write(y, x), KeyboardInterrupt)
        for t, (shape, values, history) in zip(tensors, before, strict=True):
            assert ((t.shape, t.tolist()) == (shape, values)) == (t.grad_fn is history), event
        event += 1
    assert event > 8


def what_is_alive() -> tuple[int, ...]:
    now = memory.statistics()
    return statistics.live_count, now.bytes_live, now.bytes_pinned, now.bytes_external


# An interrupt between `open` and its `with` leaves it to the file's last reference to close it.
LEFT_TO_ITS_LAST_REFERENCE = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


@LEFT_TO_ITS_LAST_REFERENCE
@pytest.mark.parametrize("is_packed", [True, False])
def test_a_save_that_is_interrupted_at_any_call_leaves_the_old_file_or_the_new_one_whole(
    tmp_path: Path, is_packed: bool
) -> None:
    path = tmp_path / "x.safetensors"
    old = {"x": tensor.zeros((300, 2)), "y": tensor.zeros((3,))}
    new = {"x": tensor.ones((300, 2)) if is_packed else tensor.ones((2, 300)).T, "y": tensor.ones((3,))}
    start = what_is_alive()
    found = set()
    event = 1
    tensor.save_file(old, path)
    while interrupted_at(event, lambda: tensor.save_file(new, path), KeyboardInterrupt):
        assert list(tmp_path.iterdir()) == [path], event
        with new_dispose_scope():
            values = {float(value) for x in tensor.load_file(path).values() for value in np.unique(x.numpy())}
        assert len(values) == 1, event
        found |= values
        assert what_is_alive() == start, event
        tensor.save_file(old, path)
        event += 1
    assert event > 50
    assert found == {0.0, 1.0}
    assert tensor.load_file(path)["y"].tolist() == [1.0, 1.0, 1.0]


@LEFT_TO_ITS_LAST_REFERENCE
def test_load_interrupted_at_any_call_releases_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    tensor.save_file({"x": tensor.ones((300, 2)), "y": tensor.zeros((3,))}, path)
    start = what_is_alive()
    event = 1
    while interrupted_at(event, lambda: tensor.load_file(path), KeyboardInterrupt):
        assert what_is_alive() == start, event
        event += 1
    assert event > 50
    assert what_is_alive() == start
