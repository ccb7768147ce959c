"""Reductions on several threads give NumPy's result, to the last bit, whatever the number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from tensor.kernels import split_reductions, sums
from tests.tensor.cutting import three_threads_for_all


@pytest.fixture(autouse=True)
def all_is_cut(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(split_reductions, "_LONGEST", 300)
    monkeypatch.setattr(sums, "_LEAST", {})  # products, which have tests of their own
    with three_threads_for_all():
        yield


def numbers(shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    values = np.random.default_rng(seed).standard_normal(shape) * 100
    return values.astype(dtype)


shapes = st.one_of(
    st.tuples(st.integers(1, 5000)),
    st.tuples(st.integers(1, 40), st.integers(1, 200)),
    st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 40)),
)
KINDS: dict[str, Any] = {"sum": np.sum, "mean": np.mean, "amax": np.max, "amin": np.min, "prod": np.prod}


@given(
    kind=st.sampled_from(sorted(KINDS)),
    shape=shapes,
    dtype=st.sampled_from(["float32", "float64", "float16", "int32", "uint8"]),
    keepdims=st.booleans(),
    seed=st.integers(0, 2**16),
    count=st.integers(1, 5),
    data=st.data(),
)
def test_a_reduction_is_numpys(
    kind: str, shape: tuple[int, ...], dtype: str, keepdims: bool, seed: int, count: int, data: st.DataObject
) -> None:
    tensor.set_num_threads(count)
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape)), tuple(range(len(shape)))]))
    values = numbers(shape, dtype, seed)
    with np.errstate(all="ignore"):
        found = getattr(tensor, kind.removeprefix("a"))(tensor.tensor(values), axis=axis, keepdims=keepdims)
        expected = KINDS[kind](values, axis=axis, keepdims=keepdims)
    assert (found.shape, found.dtype) == (np.shape(expected), expected.dtype)
    assert found.numpy().tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("n", [299, 300, 301, 607, 4096, 65_537, 1_000_003])
def test_a_long_sum_is_numpys(n: int) -> None:
    values = numbers((n,), "float32", n)
    assert tensor.tensor(values).sum().item() == values.sum()


def test_not_a_number_is_found_by_whoever_meets_it() -> None:
    values = np.zeros(5000, np.float32)
    values[4000] = np.nan
    x = tensor.tensor(values)
    assert [np.isnan(found.item()) for found in (x.sum(), x.max(), x.min())] == [True] * 3


def test_a_sum_that_overflows_is_infinite_without_a_warning() -> None:
    x = tensor.tensor(np.full(5000, 3e38, np.float32))
    assert x.sum().item() == np.inf
