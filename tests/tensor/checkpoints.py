"""What tests of checkpoints share: layers, and functions that count their runs or fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensor
from nn import functional as F
from tensor import Tensor

SIDE = 64
BLOCK = SIDE * SIDE * 4  # bytes of a matrix


def matrix(seed: int, *, requires_grad: bool = True) -> Tensor:
    values = np.random.default_rng(seed).standard_normal((SIDE, SIDE), np.float32)
    return tensor.tensor(values * 0.1, requires_grad=requires_grad)


def plainly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Stand where ``checkpoint`` does, and save everything."""
    return function(*args, **kwargs)


def layer(x: Tensor, w: Tensor) -> Tensor:
    return F.dropout(F.gelu(F.layer_norm(x @ w, (SIDE,))), 0.5).tanh()


def nested(x: Tensor, weights: list[Tensor], call: Callable[..., Any], width: int) -> Tensor:
    """Pass `x` through one layer for each weight, in `width` parts, each of them again in such parts."""
    if len(weights) == 1:
        return call(layer, x, weights[0])
    size = -(-len(weights) // width)
    for i in range(0, len(weights), size):
        x = call(nested, x, weights[i : i + size], call, width)
    return x


class Counted:
    """A function, and how often it has run."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.runs = 0

    def __call__(self, *args: Any) -> Any:
        self.runs += 1
        return self.function(*args)


class StopHereError(Exception):
    """Raised by a function that is checkpointed."""


def failing_at(run: int) -> Callable[[Tensor], Tensor]:
    runs = []

    def function(a):
        runs.append(a.shape)
        y = F.dropout(a, 0.5).exp()
        if len(runs) == run:
            raise StopHereError
        return y.sin()

    return function
