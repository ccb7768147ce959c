"""Results too large for any cache are written past it: the same values, in pieces of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensor

# A few elements more than from where on results are streamed, 32 MiB: the last lines are no whole ones.
SIZES = {"float32": 2**23 + 77, "float64": 2**22 + 13}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38]

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "a / b": lambda a, b: a / b,
    "a * 3": lambda a, _: a * 3.0,
    "1 / b": lambda _, b: 1.0 / b,
    "-a": lambda a, _: -a,
    "a + a": lambda a, _: a + a,
    "|a|": lambda a, _: abs(a),
}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = tensor.get_num_threads()
    yield
    tensor.set_num_threads(before)


def operands(dtype: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    size = SIZES[dtype]
    with np.errstate(over="ignore", under="ignore"):
        special = np.array(SPECIAL).astype(dtype)
    a, b = np.linspace(-3, 3, size, dtype=dtype), np.linspace(5, -1, size, dtype=dtype)
    for i, value in enumerate(special):
        a[i :: size // 3], b[-1 - i :: -(size // 5)] = value, value
    return a, b


@pytest.mark.parametrize("dtype", SIZES)
def test_values_are_numpys_to_the_bit_for_any_number_of_threads(dtype: str) -> None:
    a, b = operands(dtype)
    x, y = tensor.tensor(a), tensor.tensor(b)
    for name, op in OPS.items():
        with np.errstate(all="ignore"):
            expected = op(a, b)
        for threads in (1, 3):
            tensor.set_num_threads(threads)
            found = op(x, y).numpy()
            assert np.array_equal(found.view(np.uint8), expected.view(np.uint8)), (name, threads)


def test_a_view_that_begins_anywhere_is_an_operand() -> None:
    a, _ = operands("float32")
    x = tensor.tensor(np.concatenate([a, a[:3]]))
    for start in (1, 3):
        part = x[start : start + a.size]
        assert np.array_equal((part * 0.5).numpy(), part.numpy() * np.float32(0.5), equal_nan=True)


def test_gradients_so_large_are_those_of_their_parts() -> None:
    a = np.linspace(-3, 3, SIZES["float32"], dtype=np.float32)
    x, part = tensor.tensor(a, requires_grad=True), tensor.tensor(a[-1000:], requires_grad=True)
    for each in (x, part):
        ((each * each) * each - each).sum().backward()
    assert x.grad is not None
    assert part.grad is not None
    assert np.array_equal(x.grad.numpy()[-1000:], part.grad.numpy())


def test_a_result_over_an_operand_is_right() -> None:
    a, b = operands("float32")
    x, y = tensor.tensor(a), tensor.tensor(b)
    with np.errstate(all="ignore"):
        expected = (a + b) * 2
    x.add_(y).mul_(2.0)
    assert np.array_equal(x.numpy(), expected, equal_nan=True)
