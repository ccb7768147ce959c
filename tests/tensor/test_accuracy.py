"""Errors of compiled functions in units of the last place (ulp), over all exponents; what is no number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tensor.kernels import elementwise as kernels
from tensor.kernels.running import best_instruction_set, instruction_set
from tests.tensor.accuracy import EXACT, FLOATS, FUNCTIONS, promised, save_exact_values, worst_error

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_as_small_as_the_page_on_accuracy_says(name: str, dtype: type) -> None:
    assert worst_error(name, dtype) <= promised()[name][dtype]


# At not a number, the infinities and the zeros.
SPECIAL = {
    "exp": [NAN, INF, 0.0, 1.0, 1.0],
    "log": [NAN, INF, NAN, -INF, -INF],
    "tanh": [NAN, 1.0, -1.0, 0.0, -0.0],
    "sigmoid": [NAN, 1.0, 0.0, 0.5, 0.5],
    "silu": [NAN, INF, -0.0, 0.0, -0.0],
    "softplus": [NAN, INF, 0.0, np.log(2), np.log(2)],
    "logsigmoid": [NAN, -0.0, -INF, -np.log(2), -np.log(2)],
    "erf": [NAN, 1.0, -1.0, 0.0, -0.0],
    "erfc": [NAN, 0.0, 2.0, 1.0, 1.0],
    "gelu": [NAN, INF, -0.0, 0.0, -0.0],
    "gelu_by_tanh": [NAN, INF, -0.0, 0.0, -0.0],
    "reciprocal_root": [NAN, 0.0, NAN, INF, -INF],
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_infinity_and_zero_give_the_limits(name: str, dtype: type) -> None:
    # Many, so that vectors are full of them, and a few over.
    x = np.tile(np.array([NAN, INF, -INF, 0.0, -0.0], dtype), 13)
    expected = np.tile(np.array(SPECIAL[name], dtype), 13)
    found = FUNCTIONS[name][0](x)
    np.testing.assert_array_max_ulp(found, expected, 1)
    is_number = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found[is_number]), np.signbit(expected[is_number]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_result_does_not_depend_on_the_place_in_the_array(name: str, dtype: type) -> None:
    kernel = FUNCTIONS[name][0]
    x = np.abs(np.random.default_rng(1).standard_normal(200)).astype(dtype) * 3
    whole = kernel(x)
    for start in range(1, 40):
        assert kernel(x[start:]).tobytes() == whole[start:].tobytes()
    assert [kernel(x[i : i + 1])[0] for i in range(50)] == whole[:50].tolist()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_arithmetic_is_numpys_to_the_bit(name: str, dtype: type) -> None:
    kernel, plain = getattr(kernels, name), getattr(np, name)
    x, y = np.random.default_rng(2).standard_normal((2, 40, 70)).astype(dtype) * 1e3
    x[0, :6] = NAN, INF, -INF, 0.0, -0.0, NAN
    y[0, :6] = 1.0, INF, INF, 0.0, 0.0, NAN
    column, row = np.ascontiguousarray(x[:, :1]), y[1].copy()
    pairs = [(x, y), (x.T, y.T), (x, 2.0), (3, x), (x, row), (row, x), (x, y[:1]), (x, y[::-1]), (x, column)]
    pairs += [(x, dtype(2)), (x, np.array(2, dtype)), (np.broadcast_to(dtype(2), x.shape), y), (x, 1e300)]
    with np.errstate(all="ignore"):
        for a, b in pairs:
            found, expected = kernel(a, b), plain(a, b)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)
            into = np.empty_like(expected)
            assert kernel(a, b, into) is into
            np.testing.assert_array_equal(into, expected)
        same = x.copy()
        kernel(same, same, same)
        np.testing.assert_array_equal(same, plain(x, x))
        shifted = x.reshape(-1).copy()
        kernel(shifted[:-1], y.reshape(-1)[1:], shifted[1:])
        np.testing.assert_array_equal(shifted[1:], plain(x.reshape(-1)[:-1], y.reshape(-1)[1:]))


def test_other_operands_are_numpys() -> None:
    x = np.ones((3, 4), np.float32)
    for a, b in ((x, np.ones(4)), (x, 2**60), (x, True), (x, 1j), (x.astype(np.int8), x), (x, np.float64(2))):
        expected = np.add(a, b)
        found = kernels.add(a, b)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="could not be broadcast"):
        kernels.add(x, np.ones(3, np.float32))


@pytest.mark.parametrize("level", ["baseline", "avx2"])
def test_each_instruction_set_that_is_here_holds_the_same_bounds(level: str, tmp_path: Path) -> None:
    if os.environ.get("DISPOSESCOPE_SIMD"):
        pytest.skip("this is such a run")
    order = ["baseline", "avx2", "avx512"]
    if order.index(level) >= order.index(best_instruction_set()):
        pytest.skip("the best that is here is tested by all other tests")
    save_exact_values(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "DISPOSESCOPE_SIMD": level, EXACT: str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_environment_names_the_instruction_set() -> None:
    program = "from tensor.kernels.running import instruction_set; print(instruction_set())"

    def run(level: str) -> Any:
        environment = {**os.environ, "DISPOSESCOPE_SIMD": level}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )

    assert run("baseline").stdout.strip() == "baseline"
    assert run("").stdout.strip() == best_instruction_set()
    assert "DISPOSESCOPE_SIMD must be one of baseline, avx2, avx512" in run("sse").stderr
    assert instruction_set() in {"baseline", "avx2", "avx512"}
