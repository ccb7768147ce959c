"""Elementwise work on several threads gives what one thread gives, in the same order of memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensor
from scopes import new_dispose_scope
from tensor import memory
from tensor.kernels.pooled_ufuncs import PooledUfunc
from tensor.kernels.selecting import where, where_nonzero
from tests.tensor.arrays import assert_values, filled, is_exact
from tests.tensor.cutting import three_threads

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True, params=[64, 2**30], ids=["pooled", "not pooled"])
def all_is_cut(request: pytest.FixtureRequest) -> Iterator[None]:
    with three_threads(request.param):
        yield


def on_pool(ufunc: np.ufunc, *operands: Any, out: Array | None = None) -> Any:
    """Let the pool do even small work, in pieces of a few elements."""
    return PooledUfunc(ufunc, least_bytes=0, bytes_in_piece=256)(*operands, out=out)


def laid(array: Array, way: str) -> Array:
    """Return equal values in other memory."""
    if way == "transposed":
        return np.ascontiguousarray(array.T).T
    if way == "stepped":
        wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    if way == "backward":
        return np.ascontiguousarray(array[::-1])[::-1]
    return array


ways = st.sampled_from(["plain", "transposed", "stepped", "backward"])
shapes = st.sampled_from(
    [(3000,), (50, 40), (2, 900), (900, 2), (1, 2000), (7, 11, 13), (1, 1, 600), (3, 1, 500)]
)
dtypes = st.sampled_from(["float32", "float64", "float16", "int32", "int8", "complex64", "bool"])
seeds = st.integers(0, 2**16)
ONE = (np.exp, np.log, np.sqrt, np.negative, np.isfinite, np.tanh, np.absolute, np.square, np.arctan)
TWO = (np.add, np.multiply, np.divide, np.power, np.less, np.maximum, np.arctan2, np.logical_and)


def same(found: Any, expected: Any, *, exact: bool = True) -> None:
    assert_values(found, expected, exact=exact)
    assert order(found) == order(expected)


def order(x: Array) -> list[int]:
    return [step for step, n in zip(x.strides, x.shape, strict=True) if n > 1]


def outcome(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except (TypeError, ValueError) as error:
        return type(error), str(error)


def alike(ufunc: np.ufunc, *operands: Any) -> None:
    found, expected = outcome(lambda: on_pool(ufunc, *operands)), outcome(lambda: ufunc(*operands))
    if isinstance(expected, np.ndarray):
        same(found, expected, exact=is_exact(ufunc.__name__, *operands))
    else:
        assert found == expected


@given(ufunc=st.sampled_from(ONE), shape=shapes, dtype=dtypes, way=ways, seed=seeds, count=st.integers(1, 5))
def test_of_one(ufunc: np.ufunc, shape: tuple[int, ...], dtype: str, way: str, seed: int, count: int) -> None:
    tensor.set_num_threads(count)
    x = laid(filled(dtype, shape, seed), way)
    alike(ufunc, x)


@given(
    ufunc=st.sampled_from(TWO),
    shape=shapes,
    dtypes=st.tuples(dtypes, dtypes),
    ways=st.tuples(ways, ways),
    seed=seeds,
)
def test_of_two_of_one_shape(
    ufunc: np.ufunc, shape: tuple[int, ...], dtypes: tuple[str, str], ways: tuple[str, str], seed: int
) -> None:
    x, y = (
        laid(filled(dtype, shape, seed + i), way)
        for i, (dtype, way) in enumerate(zip(dtypes, ways, strict=True))
    )
    alike(ufunc, x, y)


@given(
    ufunc=st.sampled_from(TWO), shape=shapes, dtype=dtypes, number=st.sampled_from([2, 0.5, True]), seed=seeds
)
def test_of_an_array_and_a_number(
    ufunc: np.ufunc, shape: tuple[int, ...], dtype: str, number: Any, seed: int
) -> None:
    x = filled(dtype, shape, seed)
    alike(ufunc, x, number)
    alike(ufunc, number, x)


@given(data=st.data(), ufunc=st.sampled_from(TWO), shape=shapes, way=ways, seed=seeds)
def test_of_two_that_broadcast(
    data: st.DataObject, ufunc: np.ufunc, shape: tuple[int, ...], way: str, seed: int
) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    other = tuple([n if keep else 1 for n, keep in zip(shape, kept, strict=True)])
    other = other[data.draw(st.integers(0, len(shape))) :]
    x, y = laid(filled("float32", shape, seed), way), filled("float32", other, seed + 1)
    alike(ufunc, x, y)
    alike(ufunc, y, x)


def test_shapes_that_do_not_fit_fail_as_in_numpy() -> None:
    with pytest.raises(ValueError, match=r"could not be broadcast together with shapes \(50,40\) \(39,\)"):
        on_pool(np.add, np.ones((50, 40)), np.ones(39))


@given(shape=shapes, dtype=dtypes, way=ways, seed=seeds)
def test_where(shape: tuple[int, ...], dtype: str, way: str, seed: int) -> None:
    x, y = laid(filled(dtype, shape, seed), way), filled(dtype, shape, seed + 1)
    condition = laid(filled("float32", shape, seed) > 3, way)
    for one, two in ((x, y), (x, y.dtype.type(0)), (x, y[..., :1])):
        for mask in (condition, condition[..., :1]):
            np.testing.assert_array_equal(where(mask, one, two), np.where(mask, one, two))
    if dtype == "float32":
        np.testing.assert_array_equal(where_nonzero(x, y), x * (y != 0))


@given(ufunc=st.sampled_from(["add", "mul", "div", "pow"]), shape=shapes, way=ways, seed=seeds)
def test_in_place(ufunc: str, shape: tuple[int, ...], way: str, seed: int) -> None:
    values, other = filled("float64", shape, seed), laid(filled("float64", shape, seed + 1), way)
    plain = {"add": np.add, "mul": np.multiply, "div": np.divide, "pow": np.power}[ufunc]
    x = tensor.tensor(values)
    for operand in (other, other[..., :1], 2.0):
        getattr(x, f"{ufunc}_")(operand if isinstance(operand, float) else tensor.tensor(operand))
        values = plain(values, operand)
        assert_values(x.numpy(), values, exact=is_exact(ufunc))
        x.copy_(values)  # an allowed difference in the last digit must not grow


@pytest.mark.parametrize("shift", [1, 700])
def test_in_place_on_a_shifted_view_reads_what_was_there_before(shift: int) -> None:
    x = tensor.arange(4000, dtype=tensor.float64)
    expected = np.arange(4000.0)
    expected[shift:] += np.arange(4000.0)[:-shift]
    x[shift:].add_(x[:-shift])
    assert x.tolist() == expected.tolist()


def test_a_result_in_place_that_does_not_fit_writes_nothing() -> None:
    x = tensor.ones((1, 2000))
    with pytest.raises(ValueError, match="larger shape"):
        x.add_(tensor.ones((3, 2000)))
    with pytest.raises(TypeError, match="float"):
        tensor.ones((2000,), dtype=tensor.int64).add_(0.5)
    assert x.sum().item() == 2000


def test_memory_is_back_in_the_pool_when_the_op_is_done() -> None:
    with new_dispose_scope():
        x = tensor.rand(1 << 16)
        before = memory.statistics().bytes_live
        with memory.measure() as block:
            for _ in range(50):
                (x * 2 + 1).exp()
        assert block.live_bytes_change == 0
        assert block.peak_bytes - before == 2 * x.nbytes
    assert memory.statistics().bytes_pinned == 0


def test_threads_of_the_user_compute_at_once() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        values = filled("float32", (1 << 15,), seed)
        with new_dispose_scope():
            x = tensor.tensor(values)
            for _ in range(30):
                y = ((x + 1) * x).sqrt()
                if y.numpy().tobytes() != np.sqrt((values + 1) * values).tobytes():
                    wrong.append(seed)
                x.mul_(1.0)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
