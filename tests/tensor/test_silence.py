"""What is infinite or not a number is a value: NumPy's warnings of it don't leave an op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensor
from tensor import Tensor

VALUES = [0.0, -1.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45]
OPS: dict[str, Callable[[Tensor], Any]] = {
    "divide": lambda x: 1 / x,
    "divide two": lambda x: x / (x - x),
    "floor_divide": lambda x: x // 0,
    "remainder": lambda x: x % 0,
    "multiply": lambda x: x * x,
    "add": lambda x: x + x,
    "subtract": lambda x: x - x,
    "pow": lambda x: x**2.5,
    "negative power": lambda x: x**-1,
    "log": lambda x: x.log(),
    "log1p": lambda x: x.log1p(),
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: x.rsqrt(),
    "exp": lambda x: x.exp(),
    "expm1": lambda x: x.expm1(),
    "sin": lambda x: x.sin(),
    "asin": lambda x: x.asin(),
    "cosh": lambda x: x.cosh(),
    "reciprocal": lambda x: x.reciprocal(),
    "square": lambda x: x.square(),
    "hypot": lambda x: tensor.hypot(x, x),
    "logaddexp": lambda x: tensor.logaddexp(x, x),
    "lerp": lambda x: tensor.lerp(x, -x, x),
    "less": lambda x: x < x.log(),
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "var": lambda x: x.var(),
    "std": lambda x: x.std(),
    "prod": lambda x: x.prod(),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: x.cumprod(0),
    "norm": lambda x: x.norm(3),
    "logsumexp": lambda x: x.logsumexp(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(0),
    "matmul": lambda x: x @ x,
    "einsum": lambda x: tensor.einsum("i,i->i", x, x),
    "in place": lambda x: x.clone().mul_(x),
    "in place, divided": lambda x: x.clone().div_(0),
    "to another dtype": lambda x: (x.half(), x.int()),
}


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("size", [8, 200_000, 4_000_000])
@pytest.mark.parametrize("name", OPS)
def test_an_op_is_silent(name, size, is_recorded):
    x = tensor.tensor(np.resize(np.array(VALUES, np.float32), size), requires_grad=is_recorded)
    OPS[name](x)


@pytest.mark.parametrize("op", ["mean", "var", "std"])
def test_a_reduction_of_nothing_is_silent(op):
    assert np.isnan(getattr(tensor.zeros((0,)), op)().item())


def test_integers_divided_by_0_are_silent():
    x = tensor.tensor([1, 0, -3])
    x / 0
    x // 0
    x % 0
