"""Whole training steps: what lives after them, and that they learn."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

import nn
import tensor
from nn.data import DataLoader, TensorDataset
from scopes import disposing, new_dispose_scope
from tensor import memory


def spirals(count: int = 120) -> TensorDataset:
    rng = np.random.default_rng(0)
    turn = rng.uniform(0.2, 1, count)
    side = rng.integers(0, 2, count)
    angle = 5 * turn + np.pi * side
    points = (turn * np.stack([np.cos(angle), np.sin(angle)])).T
    return TensorDataset(tensor.tensor(points.astype("float32")), tensor.tensor(side))


def step(model, optimizer, x, y) -> float:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


def small() -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(2, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(16), nn.Linear(16, 2)
    )


@pytest.mark.parametrize(
    "make", [lambda p: nn.optim.SGD(p, 0.1, momentum=0.9), nn.optim.Adam, nn.optim.AdamW, nn.optim.RMSprop]
)
def test_steps_inside_scopes_return_the_live_count_to_the_start(make, window):
    model, data = small(), spirals()
    optimizer = make(model.parameters())
    counts = []
    for _ in range(3):
        for x, y in DataLoader(data, 40, dispose_batches=True):
            with new_dispose_scope("step"):
                step(model, optimizer, x, y)
        optimizer.zero_grad()
        counts.append(window().live_count)
    assert counts[0] == counts[1] == counts[2]
    optimizer.dispose()
    model.dispose()
    for x in data.tensors:
        x.dispose()
    assert window().live_count == 0


def test_steps_without_scopes_and_cycles_leave_nothing_either(window):
    gc.disable()
    try:
        model, data = small(), spirals()
        optimizer = nn.optim.Adam(model.parameters())
        step(model, optimizer, *data.tensors)
        live = window().live_count
        for _ in range(3):
            step(model, optimizer, *data.tensors)
        assert window().live_count == live
    finally:
        gc.enable()


def test_a_model_learns():
    tensor.manual_seed(0)
    data = spirals()
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = nn.optim.Adam(model.parameters(), lr=0.05)
    with new_dispose_scope():
        first = step(model, optimizer, *data.tensors)
        for _ in range(150):
            last = step(model, optimizer, *data.tensors)
    assert last < 0.1 * first


def test_gradients_survive_the_scope_of_their_step():
    model = nn.Linear(2, 1)
    with new_dispose_scope():
        model(tensor.ones((1, 2))).sum().backward()
    assert model.weight.grad.tolist() == [[1.0, 1.0]]
    assert model.weight.grad.owning_dispose_scope is None


def test_step_with_disposing_returns_its_loss_to_the_caller():
    model = nn.Linear(2, 2)
    optimizer = nn.optim.SGD(model.parameters(), lr=0.1)

    @disposing
    def one_step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    with new_dispose_scope() as scope:
        loss = one_step(tensor.ones((3, 2)), tensor.tensor([0, 1, 0]))
        assert loss in scope


def test_a_hundred_failing_steps_leave_nothing(window):
    model = small()
    live = window().live_count
    kept = []
    for _ in range(100):
        try:
            with new_dispose_scope("step"):
                model(tensor.ones((4, 2))) @ tensor.ones((5, 5))
        except ValueError as error:
            kept.append(error)
    assert len(kept) == 100
    assert window().live_count == live


def test_tied_weights_train_together():
    embedding, head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    head.weight = embedding.weight
    model = nn.Sequential(embedding, head)
    optimizer = nn.optim.SGD(model.parameters(), lr=0.1)
    assert len(optimizer.param_groups[0]["params"]) == 1
    step(model, optimizer, tensor.tensor([0, 1]), tensor.tensor([1, 2]))
    assert head.weight.tolist() == embedding.weight.tolist()


def test_accumulated_gradients_are_those_of_the_whole_batch():
    data = spirals(40)
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    second.load_state_dict(first.state_dict())
    nn.functional.cross_entropy(first(data.tensors[0]), data.tensors[1]).backward()
    for x, y in DataLoader(data, 10):
        (nn.functional.cross_entropy(second(x), y) / 4).backward()
    np.testing.assert_allclose(second.weight.grad.numpy(), first.weight.grad.numpy(), rtol=1e-4, atol=1e-6)


def perceptron(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inner, outer in pairwise(sizes):
        layers += [nn.Linear(inner, outer), activation()]
    return nn.Sequential(*layers[:-1])


class Reader(nn.Module):
    """Looks words up, and passes them through each kind of layer."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(500, 32)
        self.body = nn.Sequential(
            nn.Linear(8 * 32, 256),
            nn.LayerNorm(256),
            nn.GELU(),
            nn.Dropout(0.1),
            nn.Linear(256, 256),
            nn.BatchNorm1d(256),
            nn.SiLU(),
            nn.Linear(256, 300),
        )

    def forward(self, x):
        return self.body(self.words(x).reshape(x.shape[0], -1))


def digits(count: int = 128) -> tuple[tensor.Tensor, tensor.Tensor]:
    rng = np.random.default_rng(0)
    return tensor.tensor(rng.standard_normal((count, 784), np.float32)), tensor.tensor(
        rng.integers(0, 10, count)
    )


def sentences() -> tuple[tensor.Tensor, tensor.Tensor]:
    rng = np.random.default_rng(0)
    return tensor.tensor(rng.integers(0, 500, (128, 8))), tensor.tensor(rng.integers(0, 300, 128))


def softmax_loss(output, target):
    return -(output.softmax(dim=-1)[tensor.arange(len(target)), target]).log().mean()


def classes(output, target):
    return nn.functional.cross_entropy(output, target)


# Arrays that are smaller than what the pool serves here are NumPy's own: a few of them live at a time.
SMALL = 3 * 32 * 1024

STEPS = {
    "adam": (lambda: perceptron(784, 512, 256, 10), nn.optim.Adam, digits, classes),
    "momentum": (
        lambda: perceptron(784, 512, 256, 10),
        lambda p: nn.optim.SGD(p, 0.01, momentum=0.9, nesterov=True, weight_decay=0.01),
        digits,
        classes,
    ),
    "decay": (
        lambda: perceptron(784, 512, 256, 10, activation=nn.Tanh),
        lambda p: nn.optim.AdamW(p, amsgrad=True, maximize=True),
        digits,
        classes,
    ),
    "rmsprop": (
        lambda: perceptron(784, 512, 256, 10, activation=nn.Sigmoid),
        lambda p: nn.optim.RMSprop(p, momentum=0.9, centered=True, weight_decay=0.01),
        digits,
        classes,
    ),
    "softplus": (
        lambda: perceptron(784, 512, 256, 10, activation=nn.Softplus),
        nn.optim.Adam,
        digits,
        classes,
    ),
    "elu": (lambda: perceptron(784, 512, 256, 10, activation=nn.ELU), nn.optim.Adam, digits, classes),
    "all layers": (Reader, nn.optim.Adam, sentences, classes),
    "softmax": (Reader, nn.optim.SGD, sentences, softmax_loss),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_repeats_itself_takes_no_fresh_memory(name):
    make, optimize, data, criterion = STEPS[name]
    model, (x, y) = make(), data()
    optimizer = optimize(model.parameters())

    def one_step() -> None:
        with new_dispose_scope():
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

    assert fresh_memory_of(one_step) < SMALL


def test_an_epoch_from_a_data_loader_takes_no_fresh_memory():
    x, y = digits(512)
    model = perceptron(784, 512, 256, 10)
    optimizer = nn.optim.Adam(model.parameters())
    loader = DataLoader(TensorDataset(x, y), 128, shuffle=True)

    def epoch() -> None:
        for inputs, targets in loader:
            with new_dispose_scope():
                step(model, optimizer, inputs, targets)

    assert fresh_memory_of(epoch) < SMALL


def test_gradients_that_gather_over_steps_take_no_fresh_memory():
    x, y = digits()
    model = perceptron(784, 512, 256, 10)

    def one_step() -> None:
        with new_dispose_scope():
            classes(model(x), y).backward()

    assert fresh_memory_of(one_step) < SMALL


def fresh_memory_of(run: Callable[[], None]) -> int:
    """Hold that `run` finds all its blocks the fifth time; return what was taken beside these, in bytes."""
    gc.collect()
    setting = memory.configuration().min_pooled_bytes
    memory.configure(min_pooled_bytes="32 KiB")  # what comes from the pool is known to be warm
    for _ in range(3):
        run()
    tracemalloc.start()
    try:
        run()
        before = memory.statistics()
        start, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        with memory.measure() as during:
            run()
        _, peak = tracemalloc.get_traced_memory()
        after = memory.statistics()
    finally:
        tracemalloc.stop()
        memory.configure(min_pooled_bytes=setting)
    assert after.reuse_miss_count == before.reuse_miss_count
    assert after.reuse_count > before.reuse_count
    # NumPy tells `tracemalloc` of arrays in blocks of the pool too.
    return peak - start - (during.peak_bytes - before.bytes_live)
