"""Python's numbers beside float16 and bfloat16, also those that the dtype can't hold, as in PyTorch.

PyTorch multiplies and divides by a float32. It rounds other numbers to the dtype of the tensor first.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import tensor.torch

torch: Any = tensor.torch
theirs = pytest.importorskip("torch")

X = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    3.0,
    7.3,
    1000.0,
    65504.0,
    -65504.0,
    6e-8,
    1e-4,
    2048.0,
    0.1,
    -0.7,
    -5.5,
    0.999,
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    0.1,
    1 / 3,
    -1 / 3,
    1e-5,
    1e-8,
    -1e-8,
    1e-30,
    1e5,
    -1e5,
    65504,
    65519.9,
    65520.0,
    1e38,
]
NUMBERS += [2049, 16777217, 2**40, True, 0.5, 1.5, 2.0005, 0.9996, inf, -inf, nan]

Call = Callable[[Any, Any, float], Any]

OPS: dict[str, Call] = {
    "x + n": lambda _, x, n: x + n,
    "n + x": lambda _, x, n: n + x,
    "x - n": lambda _, x, n: x - n,
    "n - x": lambda _, x, n: n - x,
    "x * n": lambda _, x, n: x * n,
    "n * x": lambda _, x, n: n * x,
    "x / n": lambda _, x, n: x / n,
    "x // n": lambda _, x, n: x // n,
    "x % n": lambda _, x, n: x % n,
    "n % x": lambda _, x, n: n % x,
    "x ** n": lambda _, x, n: x**n,
    "n ** x": lambda _, x, n: n**x,
    "x < n": lambda _, x, n: x < n,
    "x <= n": lambda _, x, n: x <= n,
    "x > n": lambda _, x, n: x > n,
    "x >= n": lambda _, x, n: x >= n,
    "x == n": lambda _, x, n: x == n,
    "x != n": lambda _, x, n: x != n,
    "add_": lambda _, x, n: x.clone().add_(n),
    "sub_": lambda _, x, n: x.clone().sub_(n),
    "mul_": lambda _, x, n: x.clone().mul_(n),
    "div_": lambda _, x, n: x.clone().div_(n),
    "floor_divide_": lambda _, x, n: x.clone().floor_divide_(n),
    "remainder_": lambda _, x, n: x.clone().remainder_(n),
    "lt_": lambda _, x, n: x.clone().lt_(n),
    "ne_": lambda _, x, n: x.clone().ne_(n),
    "mul": lambda t, x, n: t.mul(x, n),
    "true_divide": lambda t, x, n: t.true_divide(x, n),
    "mul(out=)": lambda t, x, n: t.mul(x, n, out=t.empty_like(x)),
    "add(out=)": lambda t, x, n: t.add(x, n, out=t.empty_like(x)),
    "div by truncation": lambda _, x, n: x.div(n, rounding_mode="trunc"),
    "fmod": lambda _, x, n: x.fmod(n),
    "rsub": lambda t, x, n: t.rsub(x, n),
    "addcmul": lambda _, x, n: x.addcmul(x, x, value=n),
    "addcmul_": lambda _, x, n: x.clone().addcmul_(x, x, value=n),
    "addcdiv": lambda _, x, n: x.addcdiv(x, x + 1, value=n),
    "lerp": lambda _, x, n: x.lerp(x + 1, n),
    "lerp_": lambda _, x, n: x.clone().lerp_(x + 1, n),
    "clamp": lambda _, x, n: x.clamp(n, 3),
    "masked_fill": lambda _, x, n: x.masked_fill(x > 0.3, n),
    "threshold": lambda t, x, n: t.nn.functional.threshold(x, n, 0.1),
    "leaky_relu": lambda t, x, n: t.nn.functional.leaky_relu(x, n),
    "hardshrink": lambda t, x, n: t.nn.functional.hardshrink(x, n),
}


def result(library: Any, call: Call, dtype: str, n: float) -> tuple[str, Any] | None:
    """Return the dtype and the values of the result, or None if the op refuses the number."""
    try:
        found = call(library, library.tensor(X, dtype=getattr(library, dtype)), n)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None
    values = found.float() if found.dtype in (theirs.bfloat16, torch.bfloat16) else found
    return str(found.dtype).removeprefix("torch."), np.asarray(values.numpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", OPS)
def test_a_number_beside_16_bits_gives_pytorchs_result(name: str, dtype: str) -> None:
    compared = 0
    for n in NUMBERS:
        expected = result(theirs, OPS[name], dtype, n)
        if expected is None or (name in ("x // n", "floor_divide_") and abs(n) == inf):
            continue  # infinities in `//` follow the array API standard
        found = result(torch, OPS[name], dtype, n)
        assert found is not None, n
        assert found[0] == expected[0], n
        exact = name not in ("x ** n", "n ** x")
        np.testing.assert_allclose(found[1], expected[1], 0 if exact else 2e-2, 0, err_msg=f"n = {n}")
        compared += 1
    assert compared > 15


def test_the_gradient_of_a_quotient_has_the_precision_of_the_number() -> None:
    x = torch.ones(2, dtype=torch.float16, requires_grad=True)
    (x / 1e5).sum().backward()
    assert x.grad.tolist() == [torch.tensor(1e-5, dtype=torch.float16).item()] * 2
    y = torch.ones(2, dtype=torch.float16, requires_grad=True)
    (y * 1e-8 * 3e4).sum().backward()
    expected = theirs.tensor(3e4).half() * 1e-8
    assert y.grad.tolist() == [expected.item()] * 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_number_beside_a_donated_tensor_gives_the_same(dtype: str) -> None:
    for name in ("x + n", "x * n", "n * x", "x / n", "x // n", "x < n"):
        for n in (0.1, 1 / 3, 1e5, 1e-8):
            x = torch.tensor(X, dtype=getattr(torch, dtype))
            expected = OPS[name](torch, x, n)
            assert torch.equal(OPS[name](torch, x.donate(), n).nan_to_num(), expected.nan_to_num()), (name, n)


def test_celu_with_a_negative_alpha_leaves_positive_values_alone() -> None:
    x = [-2.0, -0.5, 0.0, 0.5, 2.0]
    for alpha in (-1.0, -0.3, 0.7, 3.0):
        for dtype in ("float16", "bfloat16", "float32"):
            found = torch.nn.functional.celu(torch.tensor(x, dtype=getattr(torch, dtype)), alpha)
            expected = theirs.nn.functional.celu(theirs.tensor(x, dtype=getattr(theirs, dtype)), alpha)
            assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-6)
