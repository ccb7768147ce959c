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


# Public functions without a rule of their own: made of functions that have one.
COMPOSED = {"allclose", "cross", "outer", "tensordot", "trace", "vecdot"}
OPS = {"_activations", "_einsum", "_elementwise", "_linalg", "_reductions", "_scans"}


def test_every_public_function_of_arithmetic_has_a_rule_or_is_composed_of_such() -> None:
    modules = {name: getattr(getattr(tensor, name), "__module__", "") for name in tensor.__all__}
    public = {name for name, module in modules.items() if module.rpartition(".")[2] in OPS}
    assert public - set(RULES) == COMPOSED


IN_PLACE_OF_ONE = [
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "exp", "exp2", "expm1", "floor", "log", "log10",
    "log1p", "log2", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt",
    "square", "tan", "tanh", "trunc",
]  # fmt: skip
IN_PLACE_OF_TWO = ["add", "sub", "mul", "div", "pow", "remainder", "floor_divide"]
IN_PLACE = [
    *[
        Sample(name, lambda x, name=name: getattr(x.clone(), f"{name}_")(), ((3,),))
        for name in IN_PLACE_OF_ONE
    ],
    *[
        Sample(name, lambda x, y, name=name: getattr(x.clone(), f"{name}_")(y), ((2, 3), shape))
        for name in IN_PLACE_OF_TWO
        for shape in ((2, 3), (3,), ())
    ],
    *[Sample(name, lambda x, name=name: _with_itself(x.clone(), name), ((3,),)) for name in IN_PLACE_OF_TWO],
    Sample("add", lambda x, y: x.clone().add_(y, alpha=3), ((3,), (3,))),
    Sample("sub", lambda x: x.clone().sub_(2, alpha=3), ((3,),)),
    Sample("div", lambda x, y: x.clone().div_(y, rounding_mode="trunc"), ((3,), (3,))),
    Sample("clamp", lambda x, y: x.clone().clamp_(y), ((3,), ())),
    Sample("lerp", lambda x, y, w: x.clone().lerp_(y, w), ((3,), (3,), ())),
    Sample("addcmul", lambda x, y, z: x.clone().addcmul_(y, z, value=2), ((3,), (3,), ())),
    Sample("addcdiv", lambda x, y, z: x.clone().addcdiv_(y, z), ((3,), (3,), ())),
    Sample("fill", lambda x, y: x.clone().fill_(y) * x, ((3,), ())),
    Sample("add", lambda x: _after_use(x.clone()), ((3,),)),
]


def _with_itself(x: Tensor, name: str) -> Tensor:
    return getattr(x, f"{name}_")(x)


def _after_use(x: Tensor) -> Tensor:
    used = x * x  # saves the values that the next line writes over
    x += 1
    x *= x
    return used + x


@pytest.mark.parametrize(("sample", "seed"), sampled(IN_PLACE))
def test_a_write_in_place_has_gradients_that_differences_confirm(sample: Sample, seed: int) -> None:
    check(sample.function, arrays_of(sample._replace(domain="unit positive"), seed), seed)
