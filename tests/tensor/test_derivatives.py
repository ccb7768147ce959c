"""Each derivative of the table, first and second, against differences: real and complex, in any layout."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor
from tensor import Tensor, autograd
from tensor.autograd import gradcheck
from tensor.tape.rules import RULES
from tests.tensor import samples, samples_linalg, samples_shapes
from tests.tensor.arrays import FLOATING, anywhere
from tests.tensor.gradients import (
    TOLERANCES,
    Array,
    Function,
    Sample,
    arrays_of,
    check,
    check_twice,
    leaves,
    rules_of,
    rules_used,
    sampled,
    values,
)

REAL = [
    *samples.ELEMENTWISE,
    *samples.REDUCTIONS,
    *samples.LINEAR_ALGEBRA,
    *[Sample(*sample) for sample in samples_shapes.SAMPLES],
    *samples_linalg.REAL,
]
COMPLEX = [
    *samples.COMPLEX,
    *[Sample(*sample, dtype=np.complex128) for sample in samples_shapes.COMPLEX_SAMPLES],
    *samples_linalg.COMPLEX,
]
NOT_DIFFERENTIABLE = {
    "all", "any", "argmax", "argmin", "argsort", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "count_nonzero", "equal", "greater",
    "greater_equal", "isclose", "isfinite", "isinf", "isnan", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "matrix_rank", "nonzero", "not_equal",
    "searchsorted", "signbit", "unique_all",
}  # fmt: skip


@pytest.mark.parametrize(("sample", "seed"), sampled([*REAL, *COMPLEX]))
def test_gradients_equal_finite_differences_in_each_layout(sample: Sample, seed: int) -> None:
    check(sample.function, arrays_of(sample, seed))


@pytest.mark.parametrize(("sample", "seed"), sampled([*REAL, *COMPLEX]))
def test_second_derivatives_equal_finite_differences_of_the_first(sample: Sample, seed: int) -> None:
    check_twice(sample.function, arrays_of(sample, seed))


def test_each_sample_uses_the_rule_that_it_is_named_after() -> None:
    for seed, sample in enumerate([*REAL, *COMPLEX]):
        assert sample.rule in rules_used(sample, seed), (sample, seed)


def test_no_rule_is_without_a_sample() -> None:
    assert set(rules_of("tensor")) - {sample.rule for sample in [*REAL, *COMPLEX]} == set()


def test_ops_that_are_not_differentiable_are_listed() -> None:
    without = {name for name, rule in RULES.items() if not any(rule.functions.values())}
    assert without == NOT_DIFFERENTIABLE


# Public functions without a rule of their own: made of functions that have one.
COMPOSED = {"allclose", "cross", "diff", "outer", "tensordot", "trace", "vecdot"}
COMPUTING = ("activations", "einsum", "elementwise", "linalg", "reductions", "scans")
OPS = {f"tensor.ops.{name}" for name in COMPUTING}


def test_every_public_function_of_arithmetic_has_a_rule_or_is_composed_of_such() -> None:
    modules = {
        name: getattr(inspect.unwrap(getattr(tensor, name)), "__module__", "") for name in tensor.__all__
    }
    public = {name for name, module in modules.items() if module in OPS}
    assert public - set(RULES) == COMPOSED


# The in-place forms of functions that have a sample.
IN_PLACE_UNARY, IN_PLACE_BINARY = (
    {
        sample.rule: "above one" if sample.domain == "above one" else "unit positive"
        for sample in samples.ELEMENTWISE
        if sample.function is getattr(tensor, sample.rule, None)
        and len(sample.shapes) == operands
        and hasattr(Tensor, f"{sample.rule}_")
    }
    for operands in (1, 2)
)
IN_PLACE = [
    *[
        Sample(name, lambda x, name=name: getattr(x.clone(), f"{name}_")(), ((3,),), domain)
        for name, domain in IN_PLACE_UNARY.items()
    ],
    *[
        Sample(name, lambda x, y, name=name: getattr(x.clone(), f"{name}_")(y), ((2, 3), shape), domain)
        for name, domain in IN_PLACE_BINARY.items()
        for shape in ((2, 3), (3,), ())
    ],
    *[
        Sample(name, lambda x, name=name: _with_itself(x.clone(), name), ((3,),), domain)
        for name, domain in IN_PLACE_BINARY.items()
    ],
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
def test_a_write_in_place_has_derivatives_that_differences_confirm(sample: Sample, seed: int) -> None:
    arrays = arrays_of(sample._replace(domain="unit positive") if sample.domain == "any" else sample, seed)
    check(sample.function, arrays)
    check_twice(sample.function, arrays)


# What makes samples of one or two tensors by name alone, and takes any shapes that broadcast.
ELEMENTWISE = {
    sample.rule: sample
    for sample in samples.ELEMENTWISE
    if sample.function is getattr(tensor, sample.rule, None) and sample.rule not in {"lerp", "tan"}
} | {"tan": Sample("tan", tensor.tan, ((),), "unit")}
HOLOMORPHIC = {sample.rule for sample in samples.COMPLEX} & set(ELEMENTWISE)
OVER_ANY = {"sum": True, "mean": True, "prod": True, "var": True, "std": True}  # of complex ones too
OVER_ANY |= dict.fromkeys(("max", "min", "logsumexp"), False)
OVER_ONE = dict.fromkeys(("softmax", "log_softmax"), False)
OVER_ONE |= dict.fromkeys(("cumulative_sum", "cumulative_prod"), True)


@st.composite
def uses(draw: st.DrawFn, *, is_complex: bool = False) -> tuple[Sample, int]:
    """Draw an op, shapes that fit it, and the seed of the values."""
    kind = draw(st.sampled_from(["elementwise", "over any", "over one", "matmul"]))
    broadcast = hnp.mutually_broadcastable_shapes
    domain = "any"
    if kind == "elementwise":
        name = draw(st.sampled_from(sorted(HOLOMORPHIC if is_complex else ELEMENTWISE)))
        _, function, shapes, domain, _ = ELEMENTWISE[name]
        shapes = draw(broadcast(num_shapes=len(shapes), min_side=0, max_side=3, max_dims=3)).input_shapes
    elif kind == "matmul":
        name, function = "matmul", tensor.matmul
        shapes = draw(broadcast(signature=np.matmul.signature, max_side=3, max_dims=2)).input_shapes
    else:
        names = OVER_ANY if kind == "over any" else OVER_ONE
        name = draw(st.sampled_from([name for name in names if names[name] or not is_complex]))
        shape = draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=3))
        one = st.integers(-len(shape), len(shape) - 1)
        if kind == "over one":
            options = {"axis": draw(one)}
        else:
            several = hnp.valid_tuple_axes(len(shape), min_size=1)
            options = {"axis": draw(st.none() | one | several), "keepdims": draw(st.booleans())}
        function, shapes = partial(getattr(tensor, name), **options), (shape,)
    dtype = np.complex128 if is_complex else np.float64
    return Sample(name, function, tuple(shapes), domain, dtype), draw(st.integers(0, 2**16))


@given(data=st.data())
def test_any_op_with_any_shapes_strides_and_dtype_has_the_derivatives_that_differences_say(data) -> None:
    sample, seed = data.draw(uses(is_complex=data.draw(st.booleans())))
    arrays = [data.draw(anywhere(array)) for array in arrays_of(sample, seed)]
    gradcheck(sample.function, leaves(arrays), **TOLERANCES)
    check_twice(sample.function, arrays)


@given(data=st.data())
def test_gradients_have_the_dtype_of_their_input_and_its_precision(data) -> None:
    sample, seed = data.draw(uses())
    dtypes = data.draw(st.tuples(*[st.sampled_from(FLOATING) for _ in sample.shapes]))
    rough = [
        data.draw(anywhere(array.astype(dtype)))
        for array, dtype in zip(arrays_of(sample, seed), dtypes, strict=True)
    ]
    exact = [array.astype(np.float64) for array in rough]
    found, expected = (weighted_gradients(sample.function, arrays, seed) for arrays in (rough, exact))
    epsilon = max(np.finfo(dtype).eps for dtype in dtypes)
    for dtype, ours, best in zip(dtypes, found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (np.dtype(dtype), best.shape)
        size = 1 + np.max(np.abs(best), initial=0)
        np.testing.assert_allclose(ours, best, rtol=0, atol=32 * epsilon * size)


def weighted_gradients(function: Function, arrays: list[Array], seed: int) -> list[Array]:
    inputs = leaves(arrays)
    out = function(*inputs)
    weights = values(out.shape, "unit", np.float64, np.random.default_rng(seed)).astype(out.dtype)
    return [g.numpy() for g in autograd.grad(out, inputs, tensor.from_numpy(weights))]
