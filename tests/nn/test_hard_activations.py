"""hardsigmoid and hardswish: the plain formula's values, of every dtype and layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from nn import functional as F

SPECIAL = [
    0.0,
    -0.0,
    -3.0,
    3.0,
    np.nextafter(np.float32(3), np.float32(4)),
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    3e38,
]


def by_numpy(name: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    bounded = np.clip(x + 3, 0, 6)
    return np.asarray(bounded / 6 if name == "hardsigmoid" else x * bounded / 6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_values_are_the_plain_formulas_to_the_bit(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = np.concatenate([np.array(SPECIAL), np.linspace(-5, 5, 10_007)]).astype(dtype)
        for values in (x, x[::3], x[:10_010].reshape(-1, 2).T, x[1], x[:0]):
            # PyTorch computes float16 in float32 too, and rounds once.
            wide = values.astype(np.float32) if dtype == "float16" else values
            expected = by_numpy(name, wide).astype(dtype)
            found = getattr(F, name)(tensor.tensor(values)).numpy()
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            assert np.array_equal(found, expected, equal_nan=True)
            assert np.array_equal(np.signbit(found)[expected == 0], np.signbit(expected)[expected == 0])


@pytest.mark.parametrize("name", ["hardsigmoid", "hardswish"])
def test_in_place_the_input_has_the_result(name: str) -> None:
    x = tensor.tensor([-4.0, -1.0, 2.0, 4.0])
    expected = getattr(F, name)(x).tolist()
    assert getattr(F, name)(x, inplace=True) is x
    assert x.tolist() == expected
