"""Hypothesis strategies for arrays: any dtype and shape, empty and 0-d ones too, shapes that broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

Array = np.ndarray[Any, Any]

FLOATING = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
ALL = ("bool", *INTEGERS, *FLOATING, *COMPLEX)

shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


def filled(dtype: str, shape: tuple[int, ...], seed: int, low: float = 1, high: float = 5) -> Array:
    """Return random values of `dtype` from `low` to `high`, the imaginary parts too."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(low, high, shape)
    if dtype in COMPLEX:
        values = values + 1j * rng.uniform(low, high, shape)
    return np.asarray(values).astype(dtype)


def arrays(
    dtypes: tuple[str, ...] = ALL, shapes: st.SearchStrategy[tuple[int, ...]] = shapes
) -> st.SearchStrategy[Array]:
    return st.builds(filled, st.sampled_from(dtypes), shapes, st.integers(0, 2**16))


@st.composite
def pairs(draw: st.DrawFn, dtypes: tuple[str, ...] = ALL) -> tuple[Array, Array]:
    """Two arrays whose shapes broadcast."""
    found = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=3))
    first, second = [draw(arrays(dtypes, st.just(shape))) for shape in found.input_shapes]
    return first, second


# What stands beside a tensor: a Python scalar has no dtype of its own.
scalars = st.sampled_from([True, 1, 2, 0.5, 2.0, 1 + 2j])


# Ops whose results are bools or bits: NumPy's promotion.
BY_NUMPY = {
    "and_", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "eq", "equal", "ge", "greater", "greater_equal", "gt", "isfinite", "isinf", "isnan", "le",
    "less", "less_equal", "logical_and", "logical_not", "logical_or", "logical_xor", "lshift", "lt", "ne",
    "not_equal", "or_", "rshift", "signbit", "xor",
}  # fmt: skip
# Ops that make floats of integers.
TO_FLOATS = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cos", "cosh", "divide", "exp",
    "exp2", "expm1", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "nextafter", "reciprocal", "sin",
    "sinh", "sqrt", "tan", "tanh", "truediv",
}  # fmt: skip


def promoted(name: str, *operands: Any) -> list[Any]:
    """Return the operands of the op `name` as NumPy must be given them to promote as tensors do.

    The higher kind's dtype wins, and integers that must become floats become float32.
    """
    dtypes = [x.dtype for x in operands if isinstance(x, np.ndarray)]
    numbers = [x for x in operands if not isinstance(x, np.ndarray)]
    inexact = [dtype for dtype in dtypes if dtype.kind in "fc"]
    if name in BY_NUMPY:
        return [*operands]
    if inexact:
        wanted = np.result_type(*inexact)
    elif (
        name in TO_FLOATS
        or any(isinstance(x, (float, complex)) for x in numbers)
        or np.result_type(*dtypes).kind == "f"
    ):
        wanted = np.dtype(np.float32)
    else:
        return [*operands]
    is_exact = [isinstance(x, np.ndarray) and x.dtype.kind in "biu" for x in operands]
    return [x.astype(wanted) if cast else x for x, cast in zip(operands, is_exact, strict=True)]


# NumPy takes these from a vector library or from C's, by processor, memory layout and length: they agree but
# for the last digits. All others are rounded as IEEE 754 says, everywhere.
TRANSCENDENTAL = {
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin",
    "asinh", "atan", "atan2", "atanh", "cos", "cosh", "exp", "exp2", "expm1", "hypot", "log", "log10",
    "log1p", "log2", "logaddexp", "pow", "power", "sin", "sinh", "tan", "tanh",
}  # fmt: skip
# Some processors fuse a multiplication and an addition inside these when numbers are complex.
COMPLEX_PRODUCTS = {
    "abs", "absolute", "div", "divide", "mul", "multiply", "reciprocal", "sign", "sqrt", "square", "truediv",
}  # fmt: skip


def is_exact(name: str, *operands: Any) -> bool:
    """Tell whether every bit of a result of the op `name` is fixed, whatever computes it."""
    if name in TRANSCENDENTAL:
        return False
    return name not in COMPLEX_PRODUCTS or not any(np.iscomplexobj(x) for x in operands)


def assert_values(found: Array, expected: Array, *, exact: bool = True) -> None:
    """Hold that shape, dtype and values are the same: to the last bit, or but for the last digits."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if exact or expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
    else:
        limits = np.finfo(expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=8 * limits.eps, atol=limits.tiny)


def assert_same(ours: Any, expected: Any, *, exact: bool = True) -> None:
    """Hold that a tensor has NumPy's shape, dtype and values."""
    assert_values(ours.detach().numpy(), np.asarray(expected), exact=exact)


def placed(array: Array, order: list[int], steps: list[int]) -> Array:
    """Return the same values in other memory: its dimensions in `order`, each with its own step."""
    sizes = [array.shape[axis] * abs(step) for axis, step in zip(order, steps, strict=True)]
    memory = np.zeros(sizes, array.dtype)[(*[slice(None, None, step) for step in steps], ...)]
    view = memory.transpose(np.argsort(order))
    view[...] = array
    return view


@st.composite
def anywhere(draw: st.DrawFn, array: Array) -> Array:
    """Draw where `array` lies in memory: any order of its dimensions, backward or with gaps."""
    order = draw(st.permutations(range(array.ndim)))
    steps = st.sampled_from([1, -1, 2, -3])
    return placed(array, order, draw(st.lists(steps, min_size=array.ndim, max_size=array.ndim)))
