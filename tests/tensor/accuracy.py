"""Errors of the compiled functions in units of the last place (ulp), against mpmath, over all exponents.

``python -m tests.tensor.accuracy`` prints them for one instruction set, ``DISPOSESCOPE_SIMD`` chooses a
lesser one; `docs/accuracy.md` promises them.
"""

from __future__ import annotations

import os
import pickle
import re
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

from tensor.kernels import elementwise as kernels

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
INF = float("inf")
FLOATS = [np.float32, np.float64]
DIGITS = {np.float32: 24, np.float64: 53}
EXACT = "DISPOSESCOPE_TESTS_EXACT"


def _logistic(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x)) if x < 200 else x + mpmath.exp(-x)


def _by_tanh(x: Any) -> Any:
    return x * _logistic(2 * mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3))


# The kernel and its definition.
FUNCTIONS = {
    "exp": (kernels.exp, mpmath.exp),
    "log": (kernels.log, mpmath.log),
    "tanh": (kernels.tanh, mpmath.tanh),
    "sigmoid": (kernels.sigmoid, _logistic),
    "silu": (kernels.silu, lambda x: x * _logistic(x)),
    "softplus": (kernels.softplus, _softplus),
    "logsigmoid": (kernels.logsigmoid, lambda x: -_softplus(-x)),
    "erf": (kernels.erf, mpmath.erf),
    "erfc": (kernels.erfc, mpmath.erfc),
    "gelu": (kernels.gelu, lambda x: x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2),
    "gelu_by_tanh": (kernels.gelu_by_tanh, _by_tanh),
    "reciprocal_root": (kernels.reciprocal_root, lambda x: 1 / mpmath.sqrt(x)),
}
POSITIVE = {"log", "reciprocal_root"}


def values(dtype: type, *, positive: bool) -> np.ndarray:
    """Numbers of all exponents and of those near 1, subnormal ones, the largest and the smallest."""
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    exponents = np.arange(info.minexp - DIGITS[dtype] + 2, info.maxexp, 1 if dtype is np.float32 else 9)
    wide = np.ldexp(rng.uniform(1, 2, exponents.size), exponents)
    usual = np.exp2(rng.uniform(-8, 7 if dtype is np.float32 else 10, 2000))
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


@cache
def exact_values(name: str, dtype: type) -> list[Any]:
    """Return what the function `name` is at all `values`, or read it from the folder that ``EXACT`` names."""
    folder = os.environ.get(EXACT)
    if folder:
        found: list[Any] = pickle.loads(Path(folder, f"{name}.{dtype.__name__}").read_bytes())
        return found
    definition = FUNCTIONS[name][1]
    far = 1e5  # where functions have met their limits, and series would be long
    exact = []
    with mpmath.workprec(200):
        for v in values(dtype, positive=name in POSITIVE).tolist():
            is_near = abs(v) < far or name in POSITIVE
            exact.append((definition if is_near else partial(_at_infinity, name))(mpmath.mpf(v)))
    return exact


def save_exact_values(folder: Path) -> None:
    """Write the values of all functions, so that tests of other instruction sets need not compute them."""
    for name in FUNCTIONS:
        for dtype in FLOATS:
            (folder / f"{name}.{dtype.__name__}").write_bytes(pickle.dumps(exact_values(name, dtype)))


def worst_error(name: str, dtype: type) -> float:
    """Return the largest error of the function `name`."""
    found = FUNCTIONS[name][0](values(dtype, positive=name in POSITIVE))
    with mpmath.workprec(200):
        return ulps(found, exact_values(name, dtype), dtype)


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


@cache
def promised() -> dict[str, dict[type, float]]:
    """Return the errors that the page on accuracy allows, by function and dtype."""
    rows = re.findall(
        r"^\| `(\w+)` \| ([\d.]+) \| ([\d.]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: {np.float32: float(single), np.float64: float(double)} for name, single, double in rows}


def table() -> str:
    """Return the largest errors as the page shows them."""
    rows = ["| function | float32 | float64 |", "| --- | ---: | ---: |"]
    for name in FUNCTIONS:
        single, double = (worst_error(name, dtype) for dtype in FLOATS)
        rows.append(f"| `{name}` | {single:.2f} | {double:.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
