"""Products of matrices and of stacks of small ones, against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensor
from tensor.kernels.products import matrix_product
from tests.simd import printed_at_each_level

RNG = np.random.default_rng(0)


def random(*shape: int, dtype: str = "float32") -> Any:
    return np.asarray(RNG.standard_normal(shape), dtype)


# Of both factors: whole tiles, what is left over beside them, stacks that broadcast, long rows; then what
# NumPy does.
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((8, 64, 64), (8, 64, 64)),
    ((3, 45, 70), (3, 70, 83)),
    ((2, 5, 9, 31), (5, 31, 10)),
    ((4, 1, 13, 512), (3, 512, 17)),
    ((20, 8), (6, 8, 8)),
    ((6, 15, 1), (1, 1, 15)),
    ((3, 9, 513), (3, 513, 9)),
    ((3, 2, 40), (3, 40, 40)),
    ((3, 40), (3, 40, 40)),
    ((0, 9, 9), (0, 9, 9)),
    ((3, 9, 0), (3, 0, 9)),
    ((1, 300, 300), (1, 300, 300)),
    ((150, 70), (70, 45)),
    ((70, 1100), (1100, 43)),
    ((13, 257), (257, 8)),
]


# Of each product's sum of magnitudes: some roundings of the dtype.
TOLERANCES = {"float32": 1e-6, "float64": 2e-15, "int64": 0}


def laid_out(x: Any, order: str) -> Any:
    """Return the values of `x` with its last two dimensions in another order of memory, or with gaps."""
    if order == "transposed" and x.ndim > 1:
        return x.swapaxes(-1, -2).copy().swapaxes(-1, -2)
    if order == "with gaps":
        return np.repeat(x, 2, -1)[..., ::2]
    if order == "backward":
        return x[..., ::-1].copy()[..., ::-1]
    return x


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("order", ["plain", "transposed", "with gaps", "backward"])
def test_values_are_those_of_numpy(a: Any, b: Any, dtype: str, order: str) -> None:
    x, y = (random(*a) * 4).astype(dtype), (random(*b) * 4).astype(dtype)
    wanted = np.matmul(x.astype("float64"), y.astype("float64"))
    for first, second in ((laid_out(x, order), y), (x, laid_out(y, order))):
        found = matrix_product(first, second)
        assert (found.shape, found.dtype) == (wanted.shape, dtype)
        scale = np.matmul(abs(x).astype("float64"), abs(y).astype("float64"))
        assert np.all(abs(found - wanted) <= TOLERANCES[dtype] * scale)


def test_each_instruction_set_gives_the_same() -> None:
    program = """
import numpy as np
from tensor.kernels.products import matrix_product
from tensor.kernels.running import instruction_set
for dtype in ("float32", "float64"):
    # Sums that are exact, so that no order of adding up shows.
    for m, k, n in ((64, 64, 64), (13, 50, 45), (8, 3, 9), (70, 600, 33)):
        x, y = (np.arange(3 * r * c, dtype=dtype).reshape(3, r, c) % 5 - 2 for r, c in ((m, k), (k, n)))
        assert np.array_equal(matrix_product(x, y), x @ y)
        z = y.swapaxes(1, 2).copy().swapaxes(1, 2)
        assert np.array_equal(matrix_product(x, z), x @ y)
        for i in range(3):
            assert np.array_equal(matrix_product(x[i], z[i]), x[i] @ y[i])
            assert np.array_equal(matrix_product(x[i].T.copy().T, y[i]), x[i] @ y[i])
print(instruction_set())
"""
    for level, printed in printed_at_each_level(program).items():
        assert printed == f"{level}\n"


def test_values_are_the_same_for_any_number_of_threads_and_any_stack() -> None:
    before = tensor.get_num_threads()
    x, y, found = random(7, 70, 90), random(7, 90, 50), []
    for count in (1, 2, 5):
        tensor.set_num_threads(count)
        found.append(matrix_product(x, y))
    tensor.set_num_threads(before)
    assert all(np.array_equal(found[0], other) for other in found)
    assert np.array_equal(matrix_product(x[2:4], y[2:4]), found[0][2:4])


def test_nan_and_infinity_stay_in_their_row_and_column() -> None:
    x, y = np.ones((2, 9, 9), "float32"), np.ones((2, 9, 9), "float32")
    x[0, 1, 2], y[1, 3, 4] = np.nan, np.inf
    found, wanted = matrix_product(x, y), np.full((2, 9, 9), 9, "float32")
    wanted[0, 1], wanted[1, :, 4] = np.nan, np.inf
    np.testing.assert_array_equal(found, wanted)


def test_gradients_are_those_of_the_formula() -> None:
    a = tensor.tensor(random(3, 9, 10, dtype="float64"), requires_grad=True)
    b = tensor.tensor(random(3, 8, 10, dtype="float64"), requires_grad=True)
    assert tensor.autograd.gradcheck(lambda a, b: a @ b.mT, (a, b))


def test_stacks_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match="mismatch in its core dimension"):
        matrix_product(random(3, 9, 10), random(3, 9, 10))
    with pytest.raises(ValueError, match="broadcast"):
        matrix_product(random(2, 9, 10), random(3, 10, 9))
