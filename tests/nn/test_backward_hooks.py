"""Hooks that see the gradients which pass through a module, as PyTorch calls them."""

from __future__ import annotations

import copy
import importlib
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import nn
import tensor


def seen_by(torch: Any, nn: Any, data: np.ndarray, *, is_leaf: bool) -> list[Any]:
    """Return what the hooks of two layers see, and the gradient that one of them changes."""
    first, second = nn.Linear(3, 2), nn.Linear(2, 1)
    for layer in (first, second):
        for p in layer.parameters():
            p.data.fill_(0.5)
    seen: list[Any] = []

    def note(module: Any, grad_input: Any, grad_output: Any) -> Any:
        seen.append([None if g is None else g.tolist() for g in (*grad_input, *grad_output)])
        return tuple(g * 2 for g in grad_input) if module is second else None

    first.register_full_backward_hook(note)
    handle = second.register_full_backward_hook(note)
    for _ in range(2):
        x = torch.tensor(data, requires_grad=is_leaf)
        second(first(x).tanh()).sum().backward()
        handle.remove()
    return [seen, None if x.grad is None else x.grad.tolist(), first.weight.grad.tolist()]


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("is_leaf", [True, False])
def test_hooks_see_and_change_what_those_of_pytorch_do(is_leaf: bool) -> None:
    torch = pytest.importorskip("torch")
    data = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    ours = seen_by(importlib.import_module("tensor.torch"), nn, data, is_leaf=is_leaf)
    theirs = seen_by(torch, torch.nn, data, is_leaf=is_leaf)
    assert len(ours[0]) == len(theirs[0])
    for one, other in zip(ours[0], theirs[0], strict=True):
        for g, h in zip(one, other, strict=True):
            assert (g is None) == (h is None)
            if g is not None:
                np.testing.assert_allclose(g, h, rtol=1e-5)
    np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-5)


def test_a_backward_pass_calls_no_backward_hook_of_a_forward_without_recording() -> None:
    layer, calls = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda *given: calls.append(given))
    x = tensor.ones((1, 2), requires_grad=True)
    with tensor.no_grad():
        y = layer(x)
    (x * y).sum().backward()
    assert x.grad.tolist() == [[y.item()] * 2]
    assert calls == []
    layer(x).sum().backward()
    assert len(calls) == 1


class Fails(nn.Module):
    """Module that calls itself, and whose inner call fails."""

    def forward(self, x: tensor.Tensor) -> tensor.Tensor:
        if x.ndim == 1:
            raise ValueError("one dimension")
        with suppress(ValueError):
            self(x[0])
        return x * 2


def test_a_forward_that_raises_leaves_nothing_behind_and_changes_no_other_pass() -> None:
    module, seen = Fails(), []
    module.register_full_backward_hook(lambda _, got, given: seen.append((got[0].shape, given[0].shape)))
    x = tensor.ones((2, 3), requires_grad=True)
    before = tensor.autograd.graph_statistics().node_count
    for _ in range(3):
        with pytest.raises(ValueError, match="one dimension"):
            module(x[0])
    assert tensor.autograd.graph_statistics().node_count == before
    module(x).sum().backward()
    assert seen == [((2, 3), (2, 3))]


def test_backward_hooks_see_what_other_hooks_have_changed() -> None:
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda _, got, given: seen.append((got[0].tolist(), given[0].tolist())))
    layer.register_forward_hook(lambda _, args, output: output * 3)
    layer.register_forward_pre_hook(lambda _, args: (args[0] * 2,))
    layer.weight.data.fill_(1.0)
    layer(tensor.ones((1, 2), requires_grad=True)).sum().backward()
    assert seen == [([[3.0, 3.0]], [[1.0]])]


def test_a_copy_of_a_module_has_its_backward_hooks() -> None:
    layer, seen = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda module, *_: seen.append(module))
    other = copy.deepcopy(layer)
    other(tensor.ones((1, 2))).sum().backward()
    assert seen == [other]


def test_a_second_derivative_runs_no_backward_hook_of_the_first() -> None:
    loss, seen = nn.MSELoss(), []
    loss.register_full_backward_hook(lambda _, got, given: seen.append(given[0].item()))
    x = tensor.tensor([2.0], requires_grad=True)
    (first,) = tensor.autograd.grad(loss(x, tensor.zeros((1,))), x, create_graph=True)
    assert seen == [1.0]
    (second,) = tensor.autograd.grad(first, x)
    assert seen == [1.0]
    assert (first.item(), second.item()) == (4.0, 2.0)


@pytest.mark.parametrize("made", [None, "text", 3, [tensor.ones(2)], {"loss": 1.0}, (1, None), ()])
def test_an_output_without_a_tensor_that_has_a_gradient_is_returned_as_it_is(made: Any) -> None:
    class Gives(nn.Module):
        def forward(self, x: tensor.Tensor) -> Any:
            return made

    module, seen = Gives(), []
    module.register_full_backward_hook(lambda *given: seen.append(given))
    assert module(tensor.ones(2, requires_grad=True)) is made
    assert seen == []
