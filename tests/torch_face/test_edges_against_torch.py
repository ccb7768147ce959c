"""Values that rounding, infinities and small numbers decide: those of PyTorch."""

from __future__ import annotations

from itertools import product
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import tensor.torch

torch: Any = tensor.torch
theirs = pytest.importorskip("torch")

PARTS = [0.0, -0.0, 1.0, -2.5, 1e-19, -1e-5, 1e-170, 0.3, 1e200, inf, -inf, nan]


def all_of_16_bits(library: Any, dtype: str) -> Any:
    """Return a tensor of all numbers of `dtype`."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    if dtype == "float16":
        values = bits.view(np.float16).astype(np.float32)
    else:
        values = (bits.astype(np.uint32) << 16).view(np.float32)
    return library.tensor(values, dtype=getattr(library, dtype))


def numbers(x: Any) -> Any:
    """Return the values of a floating tensor as an array of float64."""
    return np.asarray(x.double().numpy())


def complex_numbers(library: Any, dtype: str) -> Any:
    values = [complex(a, b) for a, b in product(PARTS, PARTS)]
    return library.tensor(values, dtype=getattr(library, dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_nextafter_is_the_neighbor_in_the_dtype(dtype: str) -> None:
    x = all_of_16_bits(torch, dtype)
    for toward in (inf, -inf, 0.0, -0.0, 1.0, nan):
        y = torch.full_like(x, toward)
        if dtype == "bfloat16":
            target = theirs.tensor(toward, dtype=theirs.bfloat16)
            expected = numbers(theirs.nextafter(all_of_16_bits(theirs, dtype), target))
        else:
            with np.errstate(all="ignore"):
                expected = np.nextafter(x.numpy(), np.float16(toward)).astype(np.float64)
        for found in (
            torch.nextafter(x, y),
            torch.nextafter(x, y[:1]),
            x.clone().nextafter_(y),
            torch.nextafter(x, y, out=torch.empty_like(x)),
            tensor.nextafter(x, y, out=torch.empty_like(x)),
            x.clone().donate().nextafter(y),
        ):
            assert found.dtype == x.dtype
            np.testing.assert_array_equal(numbers(found), expected)


def test_nextafter_of_bfloat16_takes_numbers_and_passes_gradients() -> None:
    x = torch.ones(2, dtype=torch.bfloat16, requires_grad=True)
    y = tensor.nextafter(x, 2.0)
    assert y.tolist() == [1.0078125, 1.0078125]
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_log1p_of_small_complex_numbers_keeps_the_real_part(dtype: str) -> None:
    error = 1e-6 if dtype == "complex64" else 1e-14
    given = complex_numbers(theirs, dtype)
    given = given[given.isfinite()]
    expected = theirs.log1p(given).numpy()
    x = torch.tensor(given.numpy())
    out = torch.empty_like(x)
    for found in (torch.log1p(x), x.clone().log1p_(), torch.log1p(x, out=out), x.clone().donate().log1p()):
        np.testing.assert_allclose(found.numpy().real, expected.real, error, 0)
        np.testing.assert_allclose(found.numpy().imag, expected.imag, error, 0)
    assert torch.log1p(torch.tensor(1e-19 + 1e-19j, dtype=x.dtype)).real.item() == pytest.approx(1e-19)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sgn_divides_each_part_by_the_absolute_value(dtype: str) -> None:
    expected = theirs.sgn(complex_numbers(theirs, dtype)).numpy()
    x = complex_numbers(torch, dtype)
    # In float32, PyTorch has nan for both parts of some numbers with one infinite part.
    both = np.isnan(expected.real) & np.isnan(expected.imag) if dtype == "complex64" else False
    out = torch.empty_like(x)
    for found in (torch.sgn(x), x.clone().sgn_(), torch.sgn(x, out=out), x.clone().donate().sgn()):
        for part in ("real", "imag"):
            ours, his = getattr(found.numpy(), part), getattr(expected, part)
            np.testing.assert_allclose(np.where(both, nan, ours), np.where(both, nan, his), 1e-6, 0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("decimals", [-30, -5, -3, -1, 1, 2, 3, 5, 12])
def test_round_to_decimals_rounds_once(dtype: str, decimals: int) -> None:
    if dtype in ("float16", "bfloat16"):
        given, x = all_of_16_bits(theirs, dtype), all_of_16_bits(torch, dtype)
    else:
        random = np.random.default_rng(decimals + 100)
        values = random.normal(size=5000) * 10.0 ** random.integers(-6, 9, 5000)
        values = np.concatenate([values, [inf, -inf, nan, 0.5, 2.5, -0.0, 1.25]]).astype(dtype)
        given, x = theirs.tensor(values), torch.tensor(values)
    expected = numbers(theirs.round(given, decimals=decimals))
    for found in (torch.round(x, decimals=decimals), x.clone().round_(decimals=decimals)):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(numbers(found), expected)
