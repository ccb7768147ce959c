"""Each derivative of the table against differences, for real and complex inputs in any layout."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tensor
from tensor import Tensor
from tensor._derivatives import RULES
from tensor._graph import Node, Rule
from tests.tensor import samples, samples_shapes
from tests.tensor.gradients import LAYOUTS, Sample, check, values

REAL = [
    *samples.ELEMENTWISE,
    *samples.REDUCTIONS,
    *samples.LINEAR_ALGEBRA,
    *[Sample(*sample) for sample in samples_shapes.SAMPLES],
]
COMPLEX = [
    *samples.COMPLEX,
    *[Sample(*sample, dtype=np.complex128) for sample in samples_shapes.COMPLEX_SAMPLES],
]
NOT_DIFFERENTIABLE = {
    "all", "any", "argmax", "argmin", "argsort", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "count_nonzero", "equal", "greater",
    "greater_equal", "isclose", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "nextafter", "nonzero", "not_equal", "searchsorted",
    "signbit", "unique_all",
}  # fmt: skip


def sampled(all_samples: list[Sample]) -> list[object]:
    return [pytest.param(sample, i, id=f"{sample.rule}-{i}") for i, sample in enumerate(all_samples)]


def arrays_of(sample: Sample, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [values(shape, sample.domain, sample.dtype, rng) for shape in sample.shapes]


def nodes_behind(x: Tensor) -> Iterator[Node]:
    stack, seen = [x._node], set()
    while stack:
        node = stack.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            stack += node.next


def rules_of(package: str) -> dict[str, Rule]:
    """The rules of the table that `package` has entered."""
    return {
        name: rule
        for name, rule in RULES.items()
        if any(f is not None and f.__module__.partition(".")[0] == package for f in rule.functions.values())
    }


@pytest.mark.parametrize(("sample", "seed"), sampled([*REAL, *COMPLEX]))
def test_gradients_are_what_differences_say_in_each_layout(sample: Sample, seed: int) -> None:
    for laid_out in LAYOUTS.values():
        check(sample.function, [laid_out(array) for array in arrays_of(sample, seed)], seed)


@pytest.mark.parametrize(("sample", "seed"), sampled([*REAL, *COMPLEX]))
def test_a_sample_uses_the_rule_that_it_is_named_after(sample: Sample, seed: int) -> None:
    inputs = [tensor.tensor(array, requires_grad=True) for array in arrays_of(sample, seed)]
    names = {node.rule.name for node in nodes_behind(sample.function(*inputs)) if node.next}
    assert sample.rule in names


def test_no_rule_is_without_a_sample() -> None:
    assert set(rules_of("tensor")) - {sample.rule for sample in [*REAL, *COMPLEX]} == set()


def test_what_is_not_differentiable_is_listed() -> None:
    without = {name for name, rule in RULES.items() if not any(rule.functions.values())}
    assert without == NOT_DIFFERENTIABLE
