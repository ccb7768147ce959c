"""What `nn` computes beside PyTorch: values, gradients and states."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
import tensor


def both(function: Callable[..., Any], *arrays: Any) -> None:
    """Compare what ``function(functional, *tensors)`` gives in both libraries, and the gradients."""
    torch = pytest.importorskip("torch")
    found: list[list[Any]] = []
    for lib, functional in ((tensor, nn.functional), (torch, torch.nn.functional)):
        given = [lib.asarray(array).requires_grad_() for array in arrays]
        with warnings.catch_warnings():
            # PyTorch says that a behaviour has changed long ago.
            warnings.simplefilter("ignore")
            y = function(functional, *given)
        weights = np.random.default_rng(5).standard_normal(tuple(y.shape))
        (y * lib.asarray(weights)).sum().backward()
        grads = [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in given]
        found.append([y.detach().numpy(), *grads])
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-10)


def state_of(module: Any) -> dict[str, Any]:
    """Return the state dict of a module of either library, as arrays of its own."""
    return {name: np.array(x.detach().numpy()) for name, x in module.state_dict().items()}


def assert_trains_alike(here: Any, there: Any) -> None:
    """Compare a module on four inputs with PyTorch's, which gets its state: outputs, gradients, states."""
    torch = pytest.importorskip("torch")
    assert list(here.state_dict()) == list(there.state_dict())
    there.load_state_dict({name: torch.tensor(x) for name, x in state_of(here).items()})
    x = np.random.default_rng(0).standard_normal((5, 4)).astype("float32")
    for is_training in (True, True, False):
        outputs = []
        for module, library in ((here, tensor), (there, torch)):
            module.train(is_training)
            module.zero_grad()
            out = module(library.asarray(x))
            (out * out).sum().backward()
            outputs.append(out.detach().numpy())
        np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)
        for (name, a), (_, b) in zip(here.named_parameters(), there.named_parameters(), strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
    for name, value in state_of(there).items():
        np.testing.assert_allclose(state_of(here)[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
