"""Compiled kernels on arrays without elements, of one, and of odd sizes, in every order of memory.

Under the sanitizers (`make test SANITIZE=address,undefined`) a kernel that reads beyond its arrays ends the
run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import nn.functional as F
import tensor
from tensor import Tensor
from tests.tensor.arrays import Array

# NumPy warns of means of nothing.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SHAPES = [
    *((), (0,), (1,), (7,), (0, 3), (3, 0), (0, 0), (1, 1), (5, 1), (1, 5), (9, 17), (2, 0, 3), (0, 2, 3)),
    *((4, 5, 6), (3, 1, 300), (300, 1, 3), (3, 65, 70), (2, 1, 1, 5), (1030,)),
]
DTYPES = {"float32": 1e-4, "float64": 1e-10}


def with_gaps(x: Array) -> Array:
    found = np.zeros([2 * n for n in x.shape], x.dtype)[(*[slice(None, None, 2)] * x.ndim, ...)]
    found[...] = x
    return found


def unaligned(x: Array) -> Array:
    found: Array = np.ndarray(x.shape, x.dtype, np.zeros(x.nbytes + 1, np.uint8)[1:])
    found[...] = x
    return found


# Each returns an array that lies otherwise in memory.
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "in order": np.ascontiguousarray,
    "by columns": np.asfortranarray,
    "backward": lambda x: x[(*[slice(None, None, -1)] * x.ndim, ...)],
    "rows backward": lambda x: x[..., ::-1] if x.ndim else x,
    "with gaps": with_gaps,
    "one row": lambda x: np.broadcast_to(x[:1], x.shape) if x.size and x.ndim else x,
    "one column": lambda x: np.broadcast_to(x[..., :1], x.shape) if x.size and x.ndim else x,
    "unaligned": unaligned,
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def laid_out(layout: str, shape: tuple[int, ...], dtype: str) -> Array:
    x = LAYOUTS[layout](np.asarray(np.random.default_rng(0).normal(size=shape)).astype(dtype))
    return x.reshape(shape) if not shape else x


def assert_like(expected: Any, found: Tensor, dtype: str) -> None:
    assert found.shape == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@every_layout
@every_dtype
@pytest.mark.parametrize("name", ["sum", "mean", "var", "std", "max", "min", "argmax", "argmin"])
def test_reductions_are_numpys(name: str, dtype: str, layout: str) -> None:
    ours, numpys = getattr(tensor, name), getattr(np, name)
    for shape in SHAPES:
        x, ndim = laid_out(layout, shape, dtype), len(shape)
        given = tensor.asarray(x)
        pairs = [(i, j) for i in range(ndim) for j in range(i)]
        for axis in (None, *range(-ndim, ndim), *([] if name.startswith("arg") else [(), *pairs])):
            for keepdims in (False, True):
                try:
                    expected = numpys(x.astype(np.float64), axis=axis, keepdims=keepdims)
                except ValueError:
                    with pytest.raises(ValueError, match="no elements to choose from"):
                        ours(given, axis=axis, keepdims=keepdims)
                else:
                    assert_like(expected, ours(given, axis=axis, keepdims=keepdims), dtype)


def plain_softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x)
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def plain_slope(x: Array, g: Array, axis: int) -> Array:
    chances = plain_softmax(x, axis)
    return np.asarray(chances * (g - (chances * g).sum(axis=axis, keepdims=True)))


@every_layout
@every_dtype
def test_softmax_log_softmax_and_logsumexp_equal_their_formulas(dtype: str, layout: str) -> None:
    for shape in SHAPES:
        x = laid_out(layout, shape, dtype)
        wide, given = x.astype(np.float64), tensor.asarray(x)
        for axis in range(-len(shape), len(shape)):
            chances = plain_softmax(wide, axis)
            assert_like(chances, F.softmax(given, axis), dtype)
            assert_like(np.log(chances), F.log_softmax(given, axis), dtype)
            assert_like(np.log(np.exp(wide).sum(axis=axis)), given.logsumexp(axis), dtype)
            recorded, g = tensor.tensor(x, requires_grad=True), laid_out(layout, shape, dtype)
            F.softmax(recorded, axis).backward(tensor.asarray(g))
            assert recorded.grad is not None
            assert_like(plain_slope(wide, g, axis), recorded.grad, dtype)


def test_many_rows_without_an_element_take_no_time() -> None:
    many, wide = (tensor.asarray(np.empty(shape, np.float32)) for shape in ((2**40, 0), (0, 2**40)))
    assert F.softmax(many, 1).shape == many.shape
    assert F.log_softmax(wide, 0).shape == wide.shape
    recorded = many.detach().requires_grad_()
    F.softmax(recorded, 1).sum().backward()
    assert recorded.grad is not None
    assert recorded.grad.shape == many.shape
    channels = tensor.asarray(np.empty((2**40, 3, 0), np.float32))
    assert F.batch_norm(channels, tensor.zeros((3,)), tensor.ones((3,))).shape == channels.shape


MANY = 2**40


def of_shape(*shape: int) -> Tensor:
    return tensor.asarray(np.empty(shape, np.float32)).requires_grad_()


@pytest.mark.parametrize(
    ("product", "shapes", "expected"),
    [
        (tensor.matmul, ((MANY, 0, 3), (3, 2)), (MANY, 0, 2)),
        (tensor.matmul, ((1, 3, 0), (MANY, 0, 0)), (MANY, 3, 0)),
        (tensor.matmul, ((MANY, 1, 0, 3), (2, 3, 4)), (MANY, 2, 0, 4)),
        (tensor.matmul, ((3,), (MANY, 3, 0)), (MANY, 0)),
        (tensor.matmul, ((MANY, 0, 3), (3,)), (MANY, 0)),
        (tensor.matmul, ((2, 3, 0), (0, 4)), (2, 3, 4)),
        (tensor.matmul, ((0, 3, 2), (1, 2, 4)), (0, 3, 4)),
        (Tensor.bmm, ((MANY, 0, 3), (MANY, 3, 0)), (MANY, 0, 0)),
        (F.linear, ((MANY, 0, 3), (2, 3)), (MANY, 0, 2)),
        (F.linear, ((MANY, 3, 0), (0, 0)), (MANY, 3, 0)),
        (F.conv1d, ((MANY, 0, 3), (0, 0, 1)), (MANY, 0, 3)),
        (partial(tensor.einsum, "bij,bjk->bik"), ((MANY, 0, 3), (MANY, 3, 0)), (MANY, 0, 0)),
    ],
)
def test_products_of_many_empty_matrices_take_no_time(
    product: Any, shapes: tuple[tuple[int, ...], ...], expected: tuple[int, ...]
) -> None:
    operands = [of_shape(*shape) for shape in shapes]
    found = product(*operands)
    assert found.shape == expected
    assert found.dtype == np.float32
    assert not found.detach().any()


@pytest.mark.parametrize(
    ("product", "shapes"),
    [
        (tensor.matmul, ((MANY, 0, 3), (3, 2))),
        (Tensor.bmm, ((MANY, 0, 3), (MANY, 3, 0))),
        (F.linear, ((MANY, 0, 3), (2, 3))),
        (partial(tensor.einsum, "bij,bjk->bik"), ((MANY, 0, 3), (MANY, 3, 0))),
    ],
)
def test_gradients_of_empty_products_are_zeros(product: Any, shapes: tuple[tuple[int, ...], ...]) -> None:
    operands = [of_shape(*shape) for shape in shapes]
    product(*operands).sum().backward()
    assert [x.grad.shape for x in operands if x.grad is not None] == list(shapes)
    assert not any(x.grad.any() for x in operands if x.grad is not None)


def test_a_product_of_many_empty_matrices_is_written_to_out_which_must_fit() -> None:
    with tensor.no_grad():
        out = of_shape(MANY, 0, 2)
        assert tensor.matmul(of_shape(MANY, 0, 3), of_shape(3, 2), out=out) is out
    integers = tensor.asarray(np.empty((MANY, 0, 3), np.int64))
    assert (integers @ tensor.ones((3, 2), dtype="int64")).dtype == np.int64
    with pytest.raises(ValueError, match="The last dimension of the first must equal"):
        of_shape(MANY, 0, 3) @ of_shape(4, 2)
    with pytest.raises(ValueError, match="sizes must be equal or 1"):
        of_shape(MANY, 0, 3) @ of_shape(7, 3, 2)


@every_layout
@every_dtype
def test_products_are_numpys(dtype: str, layout: str) -> None:
    for rows in (0, 1, 7, 9, 33):
        for inner in (0, 1, 5, 9, 40, 515):
            for columns in (0, 1, 2, 8, 17, 65):
                a, b = laid_out(layout, (rows, inner), dtype), laid_out(layout, (columns, inner), dtype)
                x, weight = tensor.asarray(a), tensor.asarray(b)
                expected = a.astype(np.float64) @ b.astype(np.float64).T
                assert_like(expected, x @ weight.T, dtype)
                assert_like(expected, F.linear(x, weight), dtype)
                bias = laid_out(layout, (columns,), dtype)
                assert_like(
                    np.maximum(expected + bias, 0),
                    F.relu(F.linear(x, weight, tensor.asarray(bias))),
                    dtype,
                )


@every_layout
@every_dtype
def test_products_of_stacks_are_numpys(dtype: str, layout: str) -> None:
    for rows, inner, columns in (
        (8, 5, 8),
        (9, 33, 17),
        (8, 0, 9),
        (0, 8, 8),
        (1, 8, 8),
        (8, 512, 8),
        (8, 513, 8),
    ):
        for stack, other in (
            ((3,), ()),
            ((3,), (3,)),
            ((0,), (1,)),
            ((2, 3), (3,)),
            ((2, 1), (1, 4)),
            ((1,), (1,)),
        ):
            a, b = (
                laid_out(layout, (*stack, rows, inner), dtype),
                laid_out(layout, (*other, inner, columns), dtype),
            )
            assert_like(np.matmul(a.astype(np.float64), b), tensor.asarray(a) @ tensor.asarray(b), dtype)


@every_layout
@every_dtype
def test_norms_are_the_formulas(dtype: str, layout: str) -> None:
    for shape in ((0, 3), (1, 3), (5, 3), (70, 33), (7, 1), (33, 300)):
        x, weight, bias = (
            laid_out(layout, shape, dtype),
            *(laid_out(layout, shape[1:], dtype) for _ in range(2)),
        )
        wide, given = x.astype(np.float64), [tensor.asarray(part) for part in (x, weight, bias)]
        deviations = np.sqrt(wide.var(axis=1, keepdims=True) + 1e-5)
        expected = (wide - wide.mean(axis=1, keepdims=True)) / deviations * weight + bias
        assert_like(expected, F.layer_norm(given[0], shape[1:], given[1], given[2]), dtype)
        size = np.sqrt((wide * wide).mean(axis=1, keepdims=True) + 1e-5)
        assert_like(wide / size * weight, F.rms_norm(given[0], shape[1:], given[1], 1e-5), dtype)
        means, variances = laid_out(layout, shape[1:], dtype), np.abs(laid_out(layout, shape[1:], dtype))
        expected = (wide - means) / np.sqrt(variances + 1e-5) * weight + bias
        running = tensor.asarray(means), tensor.asarray(variances)
        assert_like(expected, F.batch_norm(given[0], *running, given[1], given[2]), dtype)


def test_where_takes_complex_numbers_aligned_to_half_their_size() -> None:
    size = 5000
    x = np.frombuffer(np.arange(2 * size + 1, dtype=np.float32), np.complex64, size, 4)
    mask = np.arange(size) % 3 == 0
    found = tensor.where(tensor.asarray(mask), tensor.from_numpy(x), tensor.zeros((size,), dtype="complex64"))
    np.testing.assert_array_equal(found.numpy(), np.where(mask, x, 0))
