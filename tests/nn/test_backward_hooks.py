"""Hooks that see the gradients which pass through a module, as PyTorch calls them."""

from __future__ import annotations

import importlib
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


def test_a_forward_without_recording_calls_no_backward_hook() -> None:
    layer, calls = nn.Linear(2, 1), []
    layer.register_full_backward_hook(lambda *given: calls.append(given))
    with tensor.no_grad():
        layer(tensor.ones((1, 2)))
    assert calls == []
