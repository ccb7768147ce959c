"""One numeric checker for all derivatives: central differences along random directions, in double precision.

A gradient g of a real loss L is right when L changes by Re(sum(conj(g) * v)) * h for a small step h * v, real
or complex. The loss is Re(sum(conj(w) * out)) with random weights w, so every element of the output counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tensor
from tensor import Tensor

Function = Callable[..., Tensor]
Array = np.ndarray[Any, Any]

STEP = 1e-6
TOLERANCE = 2e-6


class Sample(NamedTuple):
    """A use of the rule `rule`: a function of tensors, their shapes, and where their values lie."""

    rule: str
    function: Function
    shapes: tuple[tuple[int, ...], ...]
    domain: str = "any"
    dtype: type = np.float64


def values(shape: tuple[int, ...], domain: str, dtype: type, rng: np.random.Generator) -> Array:
    """Return random values, none near 0, no two near each other: no kink lies within a step."""
    count = int(np.prod(shape))
    steps = (rng.permutation(count) + rng.uniform(0.2, 0.8, count)) / max(count, 1)  # within (0, 1)
    signs = rng.choice([-1.0, 1.0], count)
    real = {
        "any": signs * (0.1 + 1.9 * steps),
        "positive": 0.2 + 1.8 * steps,
        "unit": signs * (0.05 + 0.85 * steps),
        "unit positive": 0.05 + 0.85 * steps,
        "above one": 1.1 + 1.9 * steps,
    }[domain]
    if np.issubdtype(dtype, np.complexfloating):
        return np.asarray(real * np.exp(1j * rng.uniform(0.2, 1.2, count)), dtype).reshape(shape)
    return np.asarray(real, dtype).reshape(shape)


def reversed_in_memory(array: Array) -> Array:
    """Return the same values, laid out backward: every stride is negative."""
    return np.asarray(np.flip(np.flip(array).copy()))


def transposed_in_memory(array: Array) -> Array:
    """Return the same values, the first dimension contiguous."""
    return array.T.copy().T


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "rows": lambda array: array.copy(),
    "columns": transposed_in_memory,
    "backward": reversed_in_memory,
}


def gradients(
    function: Function, arrays: Sequence[Array], weights: Array, wanted: Sequence[int]
) -> list[Array]:
    """Return our gradients of the loss by those inputs that are `wanted`; the others require none."""
    inputs = [tensor.from_numpy(array) for array in arrays]
    for i in wanted:
        inputs[i].requires_grad_()
    function(*inputs).backward(tensor.from_numpy(weights))
    found = []
    for i in wanted:
        grad = inputs[i].grad
        assert grad is not None, f"no gradient of input {i}"
        assert grad.shape == arrays[i].shape
        assert grad.dtype == arrays[i].dtype
        found.append(grad.numpy())
    return found


def loss(function: Function, arrays: Sequence[Array], weights: Array) -> float:
    out = function(*[tensor.from_numpy(array) for array in arrays]).numpy()
    return float(np.sum((np.conj(weights) * out).real))


def check(function: Function, arrays: Sequence[Array], seed: int = 0) -> None:
    """Compare our gradients with differences: of each input alone, then of all together."""
    rng = np.random.default_rng(seed)
    out = function(*[tensor.from_numpy(array) for array in arrays]).numpy()
    weights = np.asarray(rng.uniform(0.5, 1.5, out.shape), out.dtype)
    if out.dtype.kind == "c":
        weights = np.asarray(weights * np.exp(1j * rng.uniform(0, 6, out.shape)))
    places = range(len(arrays))
    alone = [gradients(function, arrays, weights, [i])[0] for i in places]
    together = gradients(function, arrays, weights, places)
    for i in places:
        np.testing.assert_allclose(together[i], alone[i], rtol=1e-12, atol=1e-12)
        direction = rng.uniform(-1, 1, arrays[i].shape)
        if arrays[i].dtype.kind == "c":
            direction = direction + 1j * rng.uniform(-1, 1, arrays[i].shape)
        ahead, behind = (
            [*arrays[:i], np.asarray(arrays[i] + sign * STEP * direction), *arrays[i + 1 :]]
            for sign in (1, -1)
        )
        numeric = (loss(function, ahead, weights) - loss(function, behind, weights)) / (2 * STEP)
        ours = float(np.sum((np.conj(alone[i]) * direction).real))
        scale = 1 + float(np.sum(np.abs(alone[i])))
        assert abs(ours - numeric) <= TOLERANCE * scale, f"input {i}: ours {ours}, by differences {numeric}"
