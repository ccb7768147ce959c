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
