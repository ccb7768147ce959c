"""Sums by products: no less exact than NumPy's bound, the same warnings, shapes and infinities."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor

INF = float("inf")

ADVERSARIES = {
    "uniform": lambda rng, n: rng.uniform(0, 1, n),
    "of one value": lambda rng, n: np.full(n, 0.1),
    "of both signs": lambda rng, n: rng.standard_normal(n),
    "of many sizes": lambda rng, n: np.exp(rng.uniform(-30, 30, n)),
    "cancelling": lambda rng, n: np.resize([1e6, -1e6, 1e-3, 3.0, -2.999], n),
    "one large, all else small": lambda rng, n: np.where(np.arange(n) == 0, 1.0, 3e-8),
    "one large at the end": lambda rng, n: np.where(np.arange(n) == n - 1, 1.0, 3e-8),
}
SHAPES = [
    (999_983,),
    (600_001,),
    (1000, 600),
    (9, 64_000),
    (4001, 130),
    (30_000, 17),
    (5000, 2),
]


@pytest.mark.parametrize("make", ADVERSARIES.values(), ids=ADVERSARIES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_errors_stay_within_the_bound_of_adding_up_by_halves(make, shape, dtype):
    array = make(np.random.default_rng(0), math.prod(shape)).astype(dtype).reshape(shape)
    found = tensor.sum(tensor.tensor(array), axis=-1).numpy()
    wide = array.astype(np.longdouble)
    n = shape[-1]
    roundings = n - 1 if n < 8 else math.log2(n) + 12 if n > 128 else n / 8 + 3
    bound = roundings * np.finfo(dtype).eps / 2 * np.abs(wide).sum(axis=-1)
    assert np.all(np.abs(found - wide.sum(axis=-1)) <= bound)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "complex64"])
@pytest.mark.parametrize("axis", [None, -1, 0, (1, 2), (0, 1), (0, 2), (2, 1, 0), ()])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(12, 30, 400), (7, 9, 8), (40, 100, 32), (600, 3, 7)])
def test_shapes_are_numpys_and_dtypes_but_for_means_of_integers(dtype, axis, keepdims, shape):
    array = np.random.default_rng(0).uniform(0, 0.05 if dtype == "float16" else 2, shape).astype(dtype)
    for name in ("sum", "mean"):
        expected = getattr(np, name)(array, axis=axis, keepdims=keepdims)
        found = getattr(tensor, name)(tensor.tensor(array), axis=axis, keepdims=keepdims)
        # The mean of integers has the default dtype: nothing becomes float64 that nobody asked for.
        kept = np.float32 if (name, dtype) == ("mean", "int32") else expected.dtype
        assert (found.shape, found.dtype) == (expected.shape, kept)
        tolerance = 1e-2 if dtype == "float16" else 3e-5
        np.testing.assert_allclose(found.numpy(), expected, rtol=tolerance)


@pytest.mark.parametrize("make", ADVERSARIES.values(), ids=ADVERSARIES)
@pytest.mark.parametrize("shape", [(1000, 1000), (20_000, 3), (7, 4000), (3, 50, 60)], ids=str)
def test_sums_of_columns_are_no_less_exact_than_numpys(make, shape):
    array = make(np.random.default_rng(0), math.prod(shape)).astype(np.float32).reshape(shape)
    axis = tuple(range(len(shape) - 1))
    found = tensor.sum(tensor.tensor(array), axis=axis).numpy()
    wide = array.astype(np.longdouble)
    bound = math.prod(shape[:-1]) * np.finfo(np.float32).eps / 2 * np.abs(wide).sum(axis=axis)
    assert np.all(np.abs(found - wide.sum(axis=axis)) <= bound)


@pytest.mark.parametrize("shape", [(1_000_000,), (1000, 1000), (600, 10)])
def test_infinities_nan_and_overflows_are_numpys_and_silent(shape):
    for special in ([INF], [-INF], [np.nan], [INF, -INF], [3e38, 3e38]):
        array = np.ones(shape, np.float32)
        array.reshape(-1)[: len(special)] = special
        for axis in (None, 0, -1):
            with np.errstate(all="ignore"):
                expected = np.add.reduce(array, axis=axis)
            found = tensor.sum(tensor.tensor(array), axis=axis).numpy()
            np.testing.assert_allclose(found, expected, rtol=3e-5)


def test_no_bit_depends_on_the_number_of_threads():
    x = tensor.tensor(np.random.default_rng(0).uniform(0, 1, (3000, 1000)).astype(np.float32))
    before = tensor.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            tensor.set_num_threads(count)
            results.append([x.sum().item(), *x.sum(1).tolist(), *x.mean(1).tolist(), *x.sum(0).tolist()])
    finally:
        tensor.set_num_threads(before)
    assert results[0] == results[1] == results[2]
