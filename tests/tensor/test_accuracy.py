"""Errors of compiled functions in units of the last place (ulp), over all exponents; what is no number."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import mpmath
import numpy as np
import pytest

from tensor.kernels import arithmetic, exponentials, gaussian
from tensor.kernels.simd import best_instruction_set, instruction_set

NAN, INF = float("nan"), float("inf")
FLOATS = [np.float32, np.float64]
DIGITS = {np.float32: 24, np.float64: 53}


def _logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x)) if x < 200 else x + mpmath.exp(-x)


def _by_tanh(x: Any) -> Any:
    return x * _logistic(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))


# The kernel, its definition, and its largest error in ulp.
FUNCTIONS = {
    "exp": (exponentials.exp, mpmath.exp, 1.1),
    "log": (exponentials.log, mpmath.log, 1),
    "tanh": (exponentials.tanh, mpmath.tanh, 1.5),
    "sigmoid": (exponentials.sigmoid, _logistic, 2),
    "silu": (exponentials.silu, lambda x: x * _logistic(x), 2),
    "softplus": (exponentials.softplus, _softplus, 2),
    "logsigmoid": (exponentials.logsigmoid, lambda x: -_softplus(-x), 2),
    "erf": (gaussian.erf, mpmath.erf, 1.5),
    "erfc": (gaussian.erfc, mpmath.erfc, 8),
    "gelu": (gaussian.gelu, lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2, 8),
    "gelu_by_tanh": (gaussian.gelu_by_tanh, _by_tanh, 2.5),
    "reciprocal_root": (arithmetic.reciprocal_root, lambda x: 1 / mpmath.sqrt(x), 1.5),
}
POSITIVE = {"log", "reciprocal_root"}


def values(dtype: type, *, positive: bool) -> np.ndarray:
    """Numbers of all exponents and of those near 1, subnormal ones, the largest and the smallest."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    exponents = np.arange(info.minexp - DIGITS[dtype] + 2, info.maxexp, 1 if dtype is np.float32 else 9)
    wide = np.ldexp(rng.uniform(1, 2, exponents.size), exponents)
    usual = np.exp2(rng.uniform(-8, 7 if dtype is np.float32 else 10, 500))
    edges = [info.max, info.smallest_normal, info.smallest_subnormal, 1, 0.55, 88.5, 103.9, 709.5]
    x = np.concatenate([wide, usual, edges]).astype(dtype)
    return x if positive else np.concatenate([x, -x])


def ulps(found: np.ndarray, exact: list[Any], dtype: type) -> float:
    info = np.finfo(dtype)
    largest = mpmath.mpf(float(info.max))
    worst = 0.0
    for y, z in zip(found.tolist(), exact, strict=True):
        if abs(z) > largest:
            # Beyond the range: infinite, or the last number where that is as near.
            assert abs(y) == INF or abs(z) < largest * (1 + 2 * float(info.eps))
            assert (y > 0) == (z > 0)
            continue
        assert np.isfinite(y), (y, z)
        exponent = mpmath.frexp(z)[1] if z else 0
        gap = mpmath.ldexp(1, max(exponent - DIGITS[dtype], info.minexp - DIGITS[dtype] + 1))
        worst = max(worst, float(abs(mpmath.mpf(y) - z) / gap))
    return worst


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_as_small_as_the_modules_say(name: str, dtype: type) -> None:
    kernel, definition, limit = FUNCTIONS[name]
    x = values(dtype, positive=name in POSITIVE)
    with mpmath.workprec(200):
        far = 1e5  # where functions have met their limits, and series would be long
        exact = [
            definition(mpmath.mpf(v))
            if abs(v) < far or name in POSITIVE
            else _at_infinity(name, mpmath.mpf(v))
            for v in x.tolist()
        ]
        assert ulps(kernel(x), exact, dtype) <= limit


def _at_infinity(name: str, x: Any) -> Any:
    """Return the value for a large number, of either sign: what is left is below the smallest number."""
    limits = {
        "exp": (0, mpmath.inf),
        "tanh": (-1, 1),
        "sigmoid": (0, 1),
        "silu": (0, x),
        "softplus": (0, x),
        "logsigmoid": (x, 0),
        "erf": (-1, 1),
        "erfc": (2, 0),
        "gelu": (0, x),
        "gelu_by_tanh": (0, x),
    }[name]
    return mpmath.mpf(limits[x > 0])


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
def test_what_is_no_number_infinite_or_zero_goes_to_the_limits(name: str, dtype: type) -> None:
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
    kernel, plain = getattr(arithmetic, name), getattr(np, name)
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
        found = arithmetic.add(a, b)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="could not be broadcast"):
        arithmetic.add(x, np.ones(3, np.float32))


@pytest.mark.parametrize("level", ["baseline", "avx2"])
def test_each_instruction_set_that_is_here_holds_the_same_bounds(level: str) -> None:
    if os.environ.get("DISPOSESCOPE_SIMD"):
        pytest.skip("this is such a run")
    order = ["baseline", "avx2", "avx512"]
    if order.index(level) >= order.index(best_instruction_set()):
        pytest.skip("the best that is here is tested by all other tests")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "DISPOSESCOPE_SIMD": level},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def test_the_environment_names_the_instruction_set() -> None:
    program = "from tensor.kernels.simd import instruction_set; print(instruction_set())"

    def run(level: str) -> Any:
        environment = {**os.environ, "DISPOSESCOPE_SIMD": level}
        return subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True
        )

    assert run("baseline").stdout.strip() == "baseline"
    assert run("").stdout.strip() == best_instruction_set()
    assert "DISPOSESCOPE_SIMD is one of baseline, avx2, avx512" in run("sse").stderr
    assert instruction_set() in {"baseline", "avx2", "avx512"}
