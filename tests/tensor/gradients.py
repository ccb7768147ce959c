"""What tests of derivatives share: samples, values away from kinks, layouts, and the checks of them all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import tensor
from tensor import Tensor, autograd
from tensor.autograd import gradcheck, gradgradcheck
from tensor.tape.recording import Node, Rule
from tensor.tape.rules import RULES

Function = Callable[..., Tensor]
Array = np.ndarray[Any, Any]

# In double precision, away from kinks, differences are as good as this.
TOLERANCES = {"atol": 1e-6, "rtol": 1e-5}


class Sample(NamedTuple):
    """A use of the rule `rule`: a function of tensors, their shapes, and where their values lie."""

    rule: str
    function: Function
    shapes: tuple[tuple[int, ...], ...]
    domain: str = "any"
    dtype: type = np.float64


def values(shape: tuple[int, ...], domain: str, dtype: type, rng: np.random.Generator) -> Array:
    """Return random values, none near 0, no two near each other: no kink lies within a step.

    The domain "with zeros" is for functions that are smooth there: every other value is 0.
    """
    count = int(np.prod(shape))
    steps = (rng.permutation(count) + rng.uniform(0.2, 0.8, count)) / max(count, 1)  # within (0, 1)
    signs = rng.choice([-1.0, 1.0], count)
    real = {
        "any": signs * (0.1 + 1.9 * steps),
        "positive": 0.2 + 1.8 * steps,
        "unit": signs * (0.05 + 0.85 * steps),
        "unit positive": 0.05 + 0.85 * steps,
        "above one": 1.1 + 1.9 * steps,
        "with zeros": signs * (0.1 + 1.9 * steps) * (np.arange(count) % 2 == 0),
    }[domain]
    if np.issubdtype(dtype, np.complexfloating):
        return np.asarray(real * np.exp(1j * rng.uniform(0.2, 1.2, count)), dtype).reshape(shape)
    return np.asarray(real, dtype).reshape(shape)


def arrays_of(sample: Sample, seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [values(shape, sample.domain, sample.dtype, rng) for shape in sample.shapes]


def sampled(all_samples: Sequence[Sample]) -> list[object]:
    """Return the parameters of a test of each sample: it and its seed."""
    return [pytest.param(sample, i, id=f"{sample.rule}-{i}") for i, sample in enumerate(all_samples)]


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


def leaves(arrays: Sequence[Array], wanted: Collection[int] | None = None) -> list[Tensor]:
    """Return tensors over `arrays`, in their layouts; all require grad, or those that are `wanted`."""
    inputs = [tensor.from_numpy(array) for array in arrays]
    for i, x in enumerate(inputs):
        x.requires_grad_(wanted is None or i in wanted)
    return inputs


def check(function: Function, arrays: Sequence[Array]) -> None:
    """Hold the gradients against differences: in each layout, and by each of several inputs alone."""
    for lay_out in LAYOUTS.values():
        gradcheck(function, leaves([lay_out(array) for array in arrays]), **TOLERANCES)
    for i in range(len(arrays) if len(arrays) > 1 else 0):
        gradcheck(function, leaves(arrays, [i]), **TOLERANCES)


def check_twice(function: Function, arrays: Sequence[Array]) -> None:
    """Hold the second derivatives against differences of the first, and this against the plain gradient.

    A gradient that is recorded is computed by other formulas, and one that is missing has no differences.
    """
    inputs = leaves(arrays)
    out = function(*inputs)
    weights = tensor.from_numpy(values(tuple(out.shape), "any", out.dtype.type, np.random.default_rng(0)))
    plain, recorded = (
        autograd.grad(out, inputs, weights, retain_graph=True, create_graph=create, allow_unused=True)
        for create in (False, True)
    )
    for x, found, expected in zip(inputs, recorded, plain, strict=True):
        found, expected = (np.zeros(x.shape) if g is None else g.detach().numpy() for g in (found, expected))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    gradgradcheck(function, leaves(arrays), **TOLERANCES)


def nodes_behind(x: Tensor) -> Iterator[Node]:
    stack, seen = [x.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            stack += node.next


def rules_used(sample: Sample, seed: int) -> set[str]:
    out = sample.function(*leaves(arrays_of(sample, seed)))
    return {node.rule.name for node in nodes_behind(out) if node.next}


def rules_of(package: str) -> dict[str, Rule]:
    """The rules of the table that `package` has entered; their functions may be kernels of ``tensor``."""

    def entered_by(function: Any) -> str:
        is_kernel = function.__module__.startswith("tensor.kernels")
        return "nn" if is_kernel else function.__module__.partition(".")[0]

    return {
        name: rule
        for name, rule in RULES.items()
        if any(f is not None and entered_by(f) == package for f in rule.functions.values())
    }
