"""Powers by products and roots: their error against exact arithmetic, and every kind of value and layout."""

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
import pytest

import tensor
from tensor.kernels.elementwise import power

INF, NAN = float("inf"), float("nan")
FLOATS = [np.float32, np.float64]
BITS = {np.float32: 24, np.float64: 53}
EXPONENTS = [*range(-9, 10), -64, -63, -33, -17, 13, 17, 31, 33, 63, 64]


def ulps(found: float, exact: Fraction, dtype: type) -> float:
    """How far `found` is from `exact`, in units of the last place of a result there."""
    info = np.finfo(dtype)
    if not np.isfinite(found):
        # The first number beyond the range, if there were one.
        found = np.copysign(2.0, found)
        return abs(float((Fraction(found) ** int(info.maxexp) * (1 if found > 0 else -1) - exact) / exact))
    exponent = max(int(np.frexp(found)[1]), int(info.minexp) + 1)
    return float(abs(Fraction(found) - exact) / Fraction(2) ** (exponent - BITS[dtype]))


def values(dtype: type, n: int) -> np.ndarray:
    """Values of both signs whose powers reach from the smallest normal number to the largest."""
    rng = np.random.default_rng(abs(n))
    info = np.finfo(dtype)
    reach = -int(info.minexp) / max(abs(n), 1) - 1e-3
    spread = np.exp2(rng.uniform(-reach, reach, 150)) * rng.choice([-1, 1], 150)
    near_one = rng.uniform(0.9, 1.1, 50)
    return np.concatenate([spread, near_one, [1.5, -2.0, 3.0]]).astype(dtype)


@pytest.mark.parametrize("n", EXPONENTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_error_is_as_small_as_the_docstring_promises(dtype, n):
    x = values(dtype, n)
    exact = [Fraction(value) ** n for value in x.tolist()]
    limit = 1.5 if n == 3 else 0.51 if dtype is np.float32 else 1.0
    errors = [ulps(y, e, dtype) for y, e in zip(power(x, n).tolist(), exact, strict=True)]
    assert max(errors) <= limit


@pytest.mark.parametrize("dtype", FLOATS)
def test_squares_and_cubes_are_products_to_the_bit(dtype):
    x = np.random.default_rng(0).standard_normal(1000).astype(dtype)
    assert np.array_equal(power(x, 2), x * x)
    assert np.array_equal(power(x, 3), x * x * x)


@pytest.mark.parametrize("n", EXPONENTS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_powers_of_nan_and_infinity_equal_those_of_numpy(dtype, n):
    x = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0], dtype)
    with np.errstate(all="ignore"):
        # The power 0.5 is a square root; np.power is one too from NumPy 2.3 on.
        expected = np.sqrt(x) if n == 0.5 else np.power(x, dtype(n))
        found = power(x, n)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found[1:]), np.signbit(expected[1:]))


@pytest.mark.parametrize("n", [-64, -5, -2, 3, 4, 64])
@pytest.mark.parametrize("dtype", FLOATS)
def test_beyond_the_range_is_infinity_or_zero_of_the_right_sign(dtype, n):
    info = np.finfo(dtype)
    x = np.array([info.max, -info.max, info.smallest_subnormal, -info.smallest_subnormal], dtype)
    with np.errstate(all="ignore"):
        expected = np.power(x, dtype(n))
    found = power(x, n)
    assert np.array_equal(found, expected)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("n", [-7, -2, 3, 4, 5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_subnormal_results_are_as_near_as_the_docstring_promises(dtype, n):
    info = np.finfo(dtype)
    x = np.exp2(np.linspace(info.minexp - BITS[dtype] + 3, info.minexp - 0.01, 40) / n).astype(dtype)
    exact = [Fraction(value) ** n for value in x.tolist()]
    found = power(x, n)
    assert (found <= info.smallest_normal).all()
    assert max(ulps(y, e, dtype) for y, e in zip(found.tolist(), exact, strict=True)) <= 1.5


def test_the_last_numbers_before_overflow_are_within_an_ulp():
    for n in (4, 5, 7, 33, 63, 64, -7, -64):
        edge = np.exp2(np.linspace(1023.0, 1023.99, 30) / n)
        for value, y in zip(edge.tolist(), power(edge, n).tolist(), strict=True):
            assert ulps(y, Fraction(value) ** n, np.float64) <= 1.0


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [2, 3, 5, -3])
def test_layouts_give_the_same_values(dtype, n):
    x = np.random.default_rng(1).standard_normal((37, 70)).astype(dtype)
    expected = power(x, n)
    assert np.array_equal(power(x[::-1], n), expected[::-1])
    assert np.array_equal(power(x[:, ::-3], n), expected[:, ::-3])
    assert np.array_equal(power(x.T, n), expected.T)
    assert np.array_equal(power(np.broadcast_to(x[0], (3, 70)), n), np.broadcast_to(expected[0], (3, 70)))
    packed = np.zeros(50, np.dtype([("tag", "i1"), ("value", dtype)]))
    packed["value"] = x.reshape(-1)[:50]
    assert np.array_equal(power(packed["value"], n), expected.reshape(-1)[:50])
    assert power(x[:0], n).shape == (0, 70)
    out = x.copy()
    assert power(out, n, out=out) is out
    assert np.array_equal(out, expected)
    overlapping = np.append(x.reshape(-1), dtype(0))
    power(overlapping[:-1], n, out=overlapping[1:])
    assert np.array_equal(overlapping[1:], expected.reshape(-1))


def test_it_never_warns():
    with np.errstate(all="raise"):
        power(np.array([NAN, INF, 0.0, 1e200, 1e-200]), 5)
        power(np.array([NAN, INF, 0.0, 1e200, 1e-200]), -5)


@pytest.mark.parametrize("n", [0.5, 1.5, -0.5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_half_powers_are_roots(dtype, n):
    info = np.finfo(dtype)
    x = np.exp2(np.random.default_rng(2).uniform(info.minexp, info.maxexp, 2000)).astype(dtype)
    x[:3] = info.smallest_subnormal, info.max, 1
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.longdouble), n)
        found = power(x, n)
        near = np.isfinite(expected.astype(dtype))
        assert np.array_equal(found[~near], expected.astype(dtype)[~near])
    gaps = np.spacing(expected[near].astype(dtype))
    assert np.max(np.abs(found[near] - expected[near]) / gaps) <= 1.5


@pytest.mark.parametrize("n", [0.5, 1.5, -0.5])
@pytest.mark.parametrize("dtype", FLOATS)
def test_half_powers_of_nan_infinity_zero_and_negative_numbers_equal_those_of_numpy(dtype, n):
    x = np.array([NAN, INF, -INF, 0.0, -0.0, -1.0], dtype)
    with np.errstate(all="ignore"):
        # The operator takes the square root for 0.5. `np.power` does so only since NumPy 2.3.
        expected = x**n
        found = power(x, n)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found[1:-1]), np.signbit(expected[1:-1]))


def test_all_other_arrays_and_exponents_are_numpys():
    x = np.array([0.5, 3.0])
    for n in (-1, 0, 1, 2, 65, -65, 2.5, INF, True, 3j, np.float32(3), np.array([2.0, 3.0])):
        assert np.array_equal(power(x, n), x**n)
    for array in (x.astype(np.int64), x.astype(np.float16), x.astype(complex)):
        assert np.array_equal(power(array, 3), array**3)


FORMS = {
    "an operator": lambda x, n: x**n,
    "a function": tensor.pow,
    "out=": lambda x, n: tensor.pow(x, n, out=tensor.empty_like(x)),
    "in place": lambda x, n: x.clone().pow_(n),
    "an operator in place": lambda x, n: operator.ipow(x.clone(), n),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("n", [3, 3.0, -2, 13])
@pytest.mark.parametrize("shape", [(), (5,), (0,), (40, 1000), (300_000,)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_each_form_of_pow_multiplies(form, n, shape, dtype):
    array = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    found = form(tensor.tensor(array), n)
    assert found.dtype == dtype
    assert np.array_equal(found.numpy(), power(array, int(n)))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_other_powers_and_other_dtypes_are_numpys(form):
    for data, n in (([1.5, 2.5], 2.5), ([1.5, 2.5], -1.5), ([2, -3], 3), ([1.5, -2.0], 100), ([2, 3], True)):
        x = tensor.tensor(data)
        assert np.array_equal(form(x, n).numpy(), np.power(x.numpy(), n))


@pytest.mark.parametrize("n", [3, 4.0, -2, -3])
def test_derivatives_of_powers_are_powers(n):
    x = tensor.tensor([1.5, -2.0, 0.25], dtype=tensor.float64, requires_grad=True)
    (first,) = tensor.autograd.grad((x**n).sum(), x, create_graph=True)
    (second,) = tensor.autograd.grad(first.sum(), x)
    assert np.allclose(first.detach().numpy(), n * x.detach().numpy() ** (n - 1), rtol=1e-15)
    assert np.allclose(second.numpy(), n * (n - 1) * x.detach().numpy() ** (n - 2), rtol=1e-15)
    assert tensor.autograd.gradgradcheck(lambda x: x**n, (x,))


def test_powers_of_bools_are_counted_as_int64() -> None:
    x = tensor.tensor([True, False])
    for exponent, dtype, values in (
        (2, "int64", [1, 0]),
        (0, "int64", [1, 1]),
        (True, "bool", [1, 0]),
        (False, "bool", [1, 1]),
    ):
        found = x**exponent
        assert (str(found.dtype), found.tolist()) == (dtype, values)
