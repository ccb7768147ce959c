"""Functions of `nn.functional` beside PyTorch's: values and gradients."""

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
