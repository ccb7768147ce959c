"""Whole training steps: what lives after them, and that they learn."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import nn
import tensor
from nn.data import DataLoader, TensorDataset
from scopes import disposing, new_dispose_scope


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
        for x, y in DataLoader(data, 40):
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


def test_a_disposing_step_hands_its_loss_out():
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
