"""Sequential(checkpoint_every=n): training steps as without it, in less memory."""

from __future__ import annotations

import copy
import gc

import numpy as np
import pytest

import nn
import tensor
from scopes import new_dispose_scope
from tensor import Tensor, memory
from tests.tensor.graphs import bytes_live, leaving_nothing

WIDTH, BATCH = 64, 64


def network(every: int | None, depth: int = 4) -> nn.Sequential:
    """Return `depth` blocks of five modules; equal ones for all `every`."""
    tensor.manual_seed(0)
    modules: list[nn.Module] = []
    for _ in range(depth):
        modules += [
            nn.Linear(WIDTH, WIDTH),
            nn.BatchNorm1d(WIDTH),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.LayerNorm(WIDTH),
        ]
    return nn.Sequential(*modules, checkpoint_every=every)


def inputs(seed: int = 0) -> Tensor:
    values = np.random.default_rng(seed).standard_normal((BATCH, WIDTH), np.float32)
    return tensor.tensor(values)


def figures(model: nn.Module) -> dict[str, list[object]]:
    found = {f"gradient of {name}": p.grad.tolist() for name, p in model.named_parameters()}
    return found | {name: value.tolist() for name, value in model.state_dict().items()}


def trained(every: int | None, steps: int = 3) -> dict[str, list[object]]:
    model = network(every)
    optimizer = nn.optim.Adam(model.parameters(), 0.01)
    tensor.manual_seed(1)
    for i in range(steps):
        with new_dispose_scope():
            optimizer.zero_grad()
            model(inputs(i)).square().mean().backward()
            optimizer.step()
    return figures(model) | {"the next random numbers": tensor.rand(4).tolist()}


@pytest.mark.parametrize("every", [1, 3, 5, 20, 100])
def test_training_is_the_same_to_the_last_bit(every):
    assert trained(every) == trained(None)


def test_the_input_may_require_grad_or_hold_indices():
    grads = []
    for every in (None, 2):
        model = network(every)
        x = inputs().requires_grad_()
        model(x).sum().backward()
        embedding = nn.Sequential(nn.Embedding(5, WIDTH), *network(None, 1), checkpoint_every=every)
        tensor.manual_seed(2)
        nn.init.normal_(embedding[0].weight)
        embedding(tensor.tensor([0, 3, 3, 1])).square().sum().backward()
        grads.append((x.grad.tolist(), embedding[0].weight.grad.tolist()))
    assert grads[0] == grads[1]


def peak_of(every: int | None) -> int:
    """Return the peak of a step of an MLP of 12 layers, in blocks of the size of its input."""
    model = network(every, depth=12)
    x = inputs()
    model(x).sum().backward()  # all gradients have their memory now
    start = bytes_live()
    with memory.measure() as during:
        model(x).sum().backward()
    assert bytes_live() == start
    return (during.peak_bytes - start) // x.nbytes


def test_a_network_of_12_layers_needs_less_memory():
    whole, fives, twenties = peak_of(None), peak_of(5), peak_of(20)
    assert fives < 0.5 * whole
    assert twenties < 0.6 * whole


def test_of_each_part_the_input_alone_is_kept():
    model, x = network(5), inputs()
    start = bytes_live()
    y = model(x)
    # The input of each of the three later parts, and y.
    assert bytes_live() == start + 4 * x.nbytes
    del y
    assert bytes_live() == start


def test_evaluation_and_inference_keep_nothing():
    model, x = network(5), inputs()
    expected = network(None).eval()(x).tolist()
    start = bytes_live()
    with tensor.no_grad():
        assert model.eval()(x).tolist() == expected
    still = model.valid()
    y = still(x)
    assert still.checkpoint_every == 5
    assert (y.tolist(), y.requires_grad) == (expected, False)
    assert bytes_live() == start + x.nbytes


def test_a_network_in_a_network_may_have_checkpoints_too():
    def use(outer: int | None, inner: int | None) -> list[object]:
        tensor.manual_seed(0)
        model = nn.Sequential(network(inner), network(inner), network(inner), checkpoint_every=outer)
        tensor.manual_seed(1)
        model(inputs()).square().mean().backward()
        return [figures(model), tensor.rand(4).tolist()]

    assert use(2, 3) == use(None, None)


def test_a_slice_a_copy_and_appended_modules_have_the_checkpoints_too():
    model = network(3)
    assert model[2:7].checkpoint_every == 3
    copied = copy.deepcopy(model).append(nn.Tanh())
    assert copied.checkpoint_every == 3
    y = copied(inputs())
    assert type(y.grad_fn.saved) is not tuple  # it waits for a second run
    assert [*copied.state_dict()] == [*network(None).state_dict()]


def test_switching_to_evaluation_before_backward_is_an_error_and_changes_no_gradient():
    model = network(5)
    y = model(inputs()).sum()
    model.eval()
    with pytest.raises(RuntimeError, match="It must do the same each time"):
        y.backward()
    assert {p.grad for p in model.parameters()} == {None}


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "2"])
def test_a_number_of_modules_is_at_least_one_whenever_it_is_set(wrong):
    with pytest.raises(ValueError, match=f"at least 1, not {wrong!r}"):
        nn.Sequential(nn.ReLU(), checkpoint_every=wrong)
    model = nn.Sequential(nn.ReLU())
    model.checkpoint_every = wrong
    with pytest.raises(ValueError, match=f"at least 1, not {wrong!r}"):
        model(inputs())


def test_an_empty_network_returns_its_input():
    x = inputs()
    assert nn.Sequential(checkpoint_every=2)(x) is x


def test_steps_leave_nothing_behind():
    def step() -> None:
        model = network(3)
        model(inputs()).sum().backward()

    step()
    with leaving_nothing():
        step()


def test_disposing_the_model_before_backward_is_an_error_that_leaves_nothing(window):
    gc.collect()
    start = window().live_count
    model = network(5)
    y = model(inputs()).sum()
    model.dispose()
    with pytest.raises(tensor.TensorDisposedError):
        y.backward()
    del model, y
    assert window().live_count == start
