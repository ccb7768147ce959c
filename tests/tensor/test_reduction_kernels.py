"""Reductions of floats give NumPy's values, or closer ones, and the same bits for any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tensor
from tests.tensor.cutting import three_threads

INF = np.inf
# Shorter and longer than what is added up at once, in rows and in columns.
SHAPES = [
    (5000,),
    (70_001,),
    (40, 3),
    (3, 40_000),
    (70_000, 3),
    (300, 1500),
    (7, 300, 5),
    (2, 33, 1100),
    (70, 2500),
    (64, 10),
]
shapes = st.one_of(
    st.sampled_from(SHAPES),
    st.tuples(st.integers(1, 5000)),
    st.tuples(st.integers(1, 300), st.integers(1, 200)),
    st.tuples(st.integers(1, 12), st.integers(1, 40), st.integers(1, 40)),
)
EXACT: dict[str, Any] = {"max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin}
ROUNDED: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "var": np.var, "std": np.std}


def numbers(shape: tuple[int, ...], dtype: str, seed: int, offset: float = 0) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).standard_normal(shape) * 100 + offset).astype(dtype)


def axes_of(shape: tuple[int, ...]) -> list[Any]:
    several = [(0, 1), (0, 2), (1, 2), (2, 0, 1)] if len(shape) == 3 else []
    return [None, *range(-len(shape), len(shape)), tuple(range(len(shape))), *several]


@given(
    kind=st.sampled_from(sorted(EXACT | ROUNDED)),
    shape=shapes,
    dtype=st.sampled_from(["float32", "float64"]),
    keepdims=st.booleans(),
    seed=st.integers(0, 2**16),
    count=st.integers(1, 4),
    data=st.data(),
)
def test_a_reduction_is_numpys_of_wider_numbers(
    kind: str, shape: tuple[int, ...], dtype: str, keepdims: bool, seed: int, count: int, data: st.DataObject
) -> None:
    axis = data.draw(st.sampled_from(axes_of(shape)))
    assume(not kind.startswith("arg") or not isinstance(axis, tuple))
    values = numbers(shape, dtype, seed)
    if kind in EXACT:
        values = np.round(values / 50)  # many are the same: the first of them counts
        values.reshape(-1)[:: max(values.size // 3, 1)] = data.draw(st.sampled_from([2, -INF, INF, np.nan]))
    with np.errstate(all="ignore"), three_threads():
        tensor.set_num_threads(count)
        found = getattr(tensor, kind)(tensor.tensor(values), axis=axis, keepdims=keepdims).numpy()
        tensor.set_num_threads(1)
        alone = getattr(tensor, kind)(tensor.tensor(values), axis=axis, keepdims=keepdims).numpy()
        like = (EXACT | ROUNDED)[kind](values, axis=axis, keepdims=keepdims)
    assert (found.shape, found.dtype) == (np.shape(like), like.dtype)
    assert found.tobytes() == alone.tobytes()
    if kind in EXACT:
        np.testing.assert_array_equal(found, like)
    else:
        expected = ROUNDED[kind](values.astype(np.longdouble), axis=axis, keepdims=keepdims)
        scale = np.abs(values).max() * (values.size if kind == "sum" else np.abs(values).max() + 1)
        np.testing.assert_allclose(
            found, expected.astype(np.float64), rtol=0, atol=float(8 * np.finfo(dtype).eps * scale)
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(100_000,), (300, 400), (6, 50_000)], ids=str)
def test_a_variance_far_from_0_is_as_exact_as_its_elements(dtype: str, shape: tuple[int, ...]) -> None:
    values = numbers(shape, dtype, 1, offset=1e5)
    wide = values.astype(np.longdouble)
    for axis in (None, 0, -1):
        if len(shape) == 1 and axis == 0:
            continue
        found = tensor.var(tensor.tensor(values), axis=axis, correction=1).numpy()
        np.testing.assert_allclose(
            found, wide.var(axis=axis, ddof=1).astype(float), rtol=16 * np.finfo(dtype).eps
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5000, 1), (1, 5000), (100, 40)], ids=str)
def test_a_variance_stays_exact_where_the_first_elements_lie_far_from_the_others(
    dtype: str, shape: tuple[int, int]
) -> None:
    values = numbers(shape, dtype, 1) / 100
    values.reshape(-1)[:300] += 1e4
    axis = int(shape[0] == 1)
    found = tensor.var(tensor.tensor(values), axis=axis).numpy()
    expected = values.astype(np.longdouble).var(axis=axis).astype(float)
    np.testing.assert_allclose(found, expected, rtol=64 * np.finfo(dtype).eps)


def test_a_variance_of_equal_elements_is_not_negative() -> None:
    for shape in ((3000,), (300, 33)):
        for value in (0.1, 1e-3, 7.7e4):
            found = tensor.var(tensor.full(shape, value), axis=0).numpy()
            assert (found >= 0).all()
            assert (found <= (value * 1e-6) ** 2).all()


@pytest.mark.parametrize("dtype", ["float16", "int32", "uint8", "int64", "bool"])
def test_other_dtypes_are_numpys_to_the_last_bit(dtype: str) -> None:
    values = numbers((300, 400), "float32", 2).astype(dtype)
    for name in ("sum", "prod", "max", "min", "argmax"):
        for axis in (None, 0, 1):
            with np.errstate(all="ignore"):
                expected = getattr(np, name)(values, axis=axis)
            found = getattr(tensor, name)(tensor.tensor(values), axis=axis).numpy()
            assert (found.dtype, found.tobytes()) == (expected.dtype, np.asarray(expected).tobytes())


def test_nan_is_found_by_the_thread_that_reads_it() -> None:
    for place in (0, 17, 33, 130, 4000, 4990, 4999):
        for shape in ((5000,), (50, 100)):
            values = np.zeros(shape, np.float32)
            values.reshape(-1)[place] = np.nan
            x = tensor.tensor(values)
            assert [np.isnan(found.item()) for found in (x.sum(), x.max(), x.min(), x.var())] == [True] * 4
            assert int(np.isnan(x.amax(0).numpy()).sum()) == int(np.isnan(x.amin(-1).numpy()).sum()) == 1


def test_a_sum_that_overflows_is_infinite_without_a_warning() -> None:
    x = tensor.tensor(np.full(5000, 3e38, np.float32))
    assert x.sum().item() == INF
    assert np.isnan(tensor.tensor(np.array([INF, -INF] * 50)).sum().item())
