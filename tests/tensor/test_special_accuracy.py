"""Errors of special functions in units of the last place (ulp), against mpmath: both signs, near zeros."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import tensor.torch as torch
from tensor.kernels import bessel, gamma, scaled_erfc, special

FLOATS = [np.float32, np.float64]


def _magnitudes(least: float, most: float, count: int = 60) -> np.ndarray:
    return np.geomspace(least, most, count)


def _both(x: np.ndarray) -> np.ndarray:
    return np.concatenate([-x, x])


NEAR_0 = np.concatenate([_magnitudes(1e-30, 1e-3, 20), _magnitudes(1e-3, 80), _magnitudes(80, 1e30, 20)])
REAL = _both(NEAR_0)
# Both sides of the zeros 1 and 2 of the logarithm of the gamma function.
POSITIVE = np.concatenate([NEAR_0, 1 + _both(_magnitudes(1e-6, 0.5)), 2 + _both(_magnitudes(1e-6, 0.5))])
# Not near the zeros of the logarithm of the gamma function, and of polygamma, between these numbers.
BELOW_0 = np.concatenate(
    [-_magnitudes(1e-30, 0.4), -1 - _both(_magnitudes(1e-6, 0.4)), -_magnitudes(0.2, 1.2)]
)


def _bessel(order: int, *, is_scaled: bool) -> Callable[[Any], Any]:
    def exact(x: Any) -> Any:
        size = abs(x)
        if size < 300:
            found = mpmath.besseli(order, size) * (mpmath.exp(-size) if is_scaled else 1)
        else:
            term = total = mpmath.mpf(1)  # Hankel's expansion
            for k in range(1, 30):
                term *= ((2 * k - 1) ** 2 - 4 * order**2) / (8 * k * size)
                total += term
            found = total / mpmath.sqrt(2 * mpmath.pi * size) * (1 if is_scaled else mpmath.exp(size))
        return -found if order == 1 and x < 0 else found

    return exact


def _erfcx(x: Any) -> Any:
    if x < 1e6:
        return mpmath.exp(x * x) * mpmath.erfc(x)
    return (1 - 1 / (2 * x * x)) / (x * mpmath.sqrt(mpmath.pi))


def _log_ndtr(x: Any) -> Any:
    tail = mpmath.erfc(abs(x) / mpmath.sqrt(2)) / 2
    if x > -1000:
        return mpmath.log(tail) if x < 0 else mpmath.log1p(-tail)
    return mpmath.log(_erfcx(-x / mpmath.sqrt(2)) / 2) - x * x / 2


def _ndtri(p: Any) -> Any:
    return -mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * p)


def _lgamma(x: Any) -> Any:
    return mpmath.loggamma(x) if x > 0 else mpmath.log(abs(mpmath.gamma(x)))


def _polygamma(n: int) -> Callable[[Any], Any]:
    def exact(x: Any) -> Any:
        if x > 0:
            return mpmath.psi(n, x)
        # The reflection formula; mpmath's own values lose precision here.
        s, c = mpmath.sinpi(x), mpmath.cospi(x)
        slopes = {0: c / s, 1: -mpmath.pi / s**2, 2: 2 * mpmath.pi**2 * c / s**3}
        return (-1) ** n * mpmath.psi(n, 1 - x) - mpmath.pi * slopes[n]

    return exact


# The function, its exact values, the arguments, and the largest error in float64.
UNIT = np.concatenate(
    [_magnitudes(1e-17, 0.5), 1 - _magnitudes(1e-7, 0.4), 0.5 + _both(_magnitudes(1e-7, 0.3))]
)
FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], Any], Callable[[Any], Any], np.ndarray, float]] = {
    "erfcx": (scaled_erfc.erfcx, _erfcx, np.concatenate([REAL, _magnitudes(5, 60), -_magnitudes(5, 26)]), 6),
    "log_ndtr": (scaled_erfc.log_ndtr, _log_ndtr, np.concatenate([REAL, _both(_magnitudes(0.5, 37))]), 6),
    "erfinv": (special.erfinv, mpmath.erfinv, _both(UNIT), 2),
    "ndtri": (lambda x: torch.special.ndtri(torch.tensor(x)).numpy(), _ndtri, UNIT[UNIT != 0.5], 4),
    "i0": (lambda x: bessel.bessel_i(0, False, x), _bessel(0, is_scaled=False), REAL[abs(REAL) < 700], 8),
    "i0e": (lambda x: bessel.bessel_i(0, True, x), _bessel(0, is_scaled=True), REAL, 8),
    "i1": (lambda x: bessel.bessel_i(1, False, x), _bessel(1, is_scaled=False), REAL[abs(REAL) < 700], 8),
    "i1e": (lambda x: bessel.bessel_i(1, True, x), _bessel(1, is_scaled=True), REAL, 8),
    "lgamma": (gamma.lgamma, _lgamma, np.concatenate([POSITIVE, BELOW_0]), 8),
    "trigamma": (lambda x: gamma.polygamma(1, x), _polygamma(1), np.concatenate([NEAR_0, BELOW_0]), 8),
    "polygamma of order 2": (lambda x: gamma.polygamma(2, x), _polygamma(2), POSITIVE[POSITIVE < 1e9], 8),
}


def _worst_error(name: str, dtype: type) -> float:
    function, exact, arguments, _ = FUNCTIONS[name]
    largest = np.finfo(dtype).max
    worst = 0.0
    with np.errstate(all="ignore"):
        x = arguments.astype(dtype)
        found = np.asarray(function(x))
    assert found.dtype == dtype
    with mpmath.workdps(60):
        for given, got in zip(x.tolist(), found.tolist(), strict=True):
            true = exact(mpmath.mpf(given))
            if abs(true) >= largest:
                assert got in (np.inf, -np.inf, largest)
                continue
            step = np.spacing(dtype(abs(float(true))))
            worst = max(worst, float(abs(mpmath.mpf(got) - true) / mpmath.mpf(float(step))))
    return worst


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_last_digits_of_special_functions_are_right_in_float64(name: str) -> None:
    assert _worst_error(name, np.float64) <= FUNCTIONS[name][-1]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_functions_are_rounded_to_the_nearest_number_in_float32(name: str) -> None:
    assert _worst_error(name, np.float32) <= 0.51


@pytest.mark.parametrize("dtype", FLOATS)
def test_erfcx_and_log_ndtr_have_limits_at_infinity(dtype: type) -> None:
    x = np.array([-np.inf, -50, np.inf, np.nan, 0.0], dtype)
    np.testing.assert_array_equal(scaled_erfc.erfcx(x), np.array([np.inf, np.inf, 0, np.nan, 1], dtype))
    found = scaled_erfc.log_ndtr(x[[0, 2, 3]])
    np.testing.assert_array_equal(found, np.array([-np.inf, 0, np.nan], dtype))


def test_i0_is_finite_up_to_its_own_overflow() -> None:
    assert bessel.bessel_i(0, False, np.array([713.0, 714.0])).tolist() == [
        pytest.approx(float(mpmath.besseli(0, 713)), rel=1e-14),
        np.inf,
    ]


@pytest.mark.parametrize("dtype", FLOATS)
def test_lgamma_is_infinite_at_its_poles_and_zero_at_1_and_2(dtype: type) -> None:
    found = gamma.lgamma(np.array([0.0, -0.0, -1, -7, np.inf, -np.inf, np.nan, 1, 2], dtype))
    assert found[:6].tolist() == [np.inf] * 6
    assert np.isnan(found[6])
    assert found[7:].tolist() == [0.0, 0.0]
