"""Affine maps, with a ReLU behind them or not, against NumPy's plain formula."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import nn
import tensor
from tensor.kernels.products import affine, matrix_product
from tests.simd import printed_at_each_level

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def where_kernels_run() -> Iterator[None]:
    """Be silent, as kernel contexts are: a BLAS may set floating-point flags for finite results."""
    with np.errstate(all="ignore"):
        yield


def random(*shape: int, dtype: str = "float64") -> Any:
    return np.asarray(RNG.standard_normal(shape), dtype)


def plainly(x: Any, weight: Any, bias: Any, is_rectified: bool) -> Any:
    out = x @ weight.T
    out = out if bias is None else out + bias
    return np.maximum(out, 0) if is_rectified else out


# Sizes for which the weight is transposed first, and others, with what is left over beside blocks of 4; then
# few inputs, and few outputs.
SIZES: list[tuple[tuple[int, ...], int]] = [
    *(((5,), 3), ((64, 64), 128), ((37, 6), 53), ((2, 3, 5), 70), ((0, 5), 4), ((3, 0), 4), ((300, 1), 400)),
    *(((70, 8), 1100), ((131, 3), 513), ((7, 5000), 10), ((2, 3, 1030), 5), ((9, 1024), 16), ((0, 2000), 3)),
]


@pytest.mark.parametrize(("shape", "columns"), SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_values_are_those_of_the_formula(shape: Any, columns: int, dtype: str, with_bias: bool) -> None:
    x, weight = random(*shape, dtype=dtype), random(columns, shape[-1], dtype=dtype)
    bias = random(columns, dtype=dtype) if with_bias else None
    tolerance = {"float16": 2e-2, "float32": 2e-5, "complex64": 2e-5, "float64": 1e-12}[dtype]
    tolerance *= max(1, shape[-1] / 100)
    for is_rectified in (False, True):
        out = affine(x, weight, bias, is_rectified)
        wanted = plainly(x, weight, bias, is_rectified)
        assert out.dtype == dtype
        assert out.shape == wanted.shape
        np.testing.assert_allclose(out, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("shape", "columns"), SIZES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
def test_a_product_with_a_transposed_matrix_is_numpys(
    shape: tuple[int, ...], columns: int, dtype: str
) -> None:
    x, weight = (random(*shape) * 4).astype(dtype), (random(columns, shape[-1]) * 4).astype(dtype)
    tolerance = {"int64": 0.0, "float64": 2e-15}.get(dtype, 2e-6)
    for a, b in ((x, weight.T), (x, weight.T.copy()), (np.asfortranarray(x), weight.T), (x, weight[::-1].T)):
        found = matrix_product(a, b)
        assert (found.shape, found.dtype) == ((a @ b).shape, dtype)
        assert np.all(abs(found - a @ b) <= tolerance * (abs(a) @ abs(b)))
    of_tensors = tensor.tensor(x) @ tensor.tensor(weight).T
    np.testing.assert_array_equal(of_tensors.numpy(), matrix_product(x, weight.T))


def test_each_instruction_set_gives_the_same() -> None:
    program = """
import numpy as np
from tensor.kernels.products import affine
from tensor.kernels.running import instruction_set
for dtype in ("float32", "float64"):
    # Sums that are exact, so that no order of adding up shows.
    x, weight = (np.arange(n * 7, dtype=dtype).reshape(n, 7) % 5 - 2 for n in (45, 61))
    bias = np.arange(61, dtype=dtype) - 30
    assert np.array_equal(affine(x, weight, bias, False), x @ weight.T + bias)
    assert np.array_equal(affine(x, weight, bias, True), np.maximum(x @ weight.T + bias, 0))
    x, weight = (np.arange(n * 5003, dtype=dtype).reshape(n, 5003) % 5 - 2 for n in (45, 7))
    assert np.array_equal(affine(x, weight, bias[:7], False), x @ weight.T + bias[:7])
print(instruction_set())
"""
    for level, printed in printed_at_each_level(program).items():
        assert printed == f"{level}\n"


def test_operands_of_any_order_of_memory_and_of_several_dtypes_are_taken() -> None:
    x, weight, bias = random(40, 60), random(50, 60), random(50)
    wanted = plainly(x, weight, bias, True)
    apart = np.repeat(bias, 2)[::2]
    for a, w, b in [
        (np.asfortranarray(x), weight, bias),
        (x, np.asfortranarray(weight), bias),
        (x, weight, apart),
        (x[::-1][::-1], weight.astype(">f8"), bias),
    ]:
        np.testing.assert_allclose(affine(a, w, b, True), wanted, rtol=1e-12, atol=1e-12)
    mixed = affine(x.astype("float32"), weight.astype("float32"), bias, True)
    assert mixed.dtype == np.float64
    np.testing.assert_allclose(mixed, wanted, rtol=1e-4, atol=1e-4)


def test_nan_stays_and_infinities_are_rectified() -> None:
    x = np.asarray([[np.nan], [np.inf], [-np.inf], [0.0]], "float32")
    out = affine(x, np.ones((1, 1), "float32"), np.zeros(1, "float32"), True)
    assert np.array_equal(out, np.asarray([[np.nan], [np.inf], [0.0], [0.0]]), equal_nan=True)
    for inner, columns in ((4, 2000), (2000, 4)):
        x = np.ones((4, inner), "float32")
        x[:3, -1] = np.nan, np.inf, -np.inf
        out = affine(x, np.ones((columns, inner), "float32"), np.zeros(columns, "float32"), True)
        wanted = np.asarray([[np.nan], [np.inf], [0.0], [inner]])
        assert np.array_equal(out, np.broadcast_to(wanted, out.shape), equal_nan=True)


def test_large_results_are_the_same_for_any_number_of_threads() -> None:
    before = tensor.get_num_threads()
    for rows, inner, columns in ((3000, 3, 100), (64, 4, 3000), (70, 5000, 6), (500, 40, 100)):
        x, weight, bias, found = random(rows, inner), random(columns, inner), random(columns), []
        for count in (1, 2, 5):
            tensor.set_num_threads(count)
            found.append(affine(x, weight, bias, True))
        tensor.set_num_threads(before)
        assert all(np.array_equal(found[0], other) for other in found)


@pytest.mark.parametrize(
    ("x", "weight", "bias", "message"),
    [
        (random(2, 3), random(4, 5), None, r"\(out_features, in_features\) = \(4, 5\)"),
        (random(2, 3), random(3), None, r"\(out_features, in_features\) = \(3,\)"),
        (
            random(2, 3),
            random(4, 3),
            random(5),
            r"must have shape \(4,\), one value for each output feature, not \(5,\)",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_named(x: Any, weight: Any, bias: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        affine(x, weight, bias, False)


def test_a_result_over_the_limit_is_an_error_and_nothing_is_left() -> None:
    layer, x = nn.Linear(1, 1000), tensor.ones((10_000, 1))
    before = tensor.memory.statistics().bytes_live
    with tensor.memory.limit("16 MiB"), pytest.raises(tensor.OutOfMemoryError):
        layer(x)
    assert tensor.memory.statistics().bytes_live == before
