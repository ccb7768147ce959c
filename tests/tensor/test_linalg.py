"""Products of matrices and vectors: NumPy's values over broadcasting batches; what does not fit is named."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tensor
from tests.tensor.arrays import ALL, Array, arrays, assert_same, filled, promoted


@st.composite
def factors(draw: st.DrawFn) -> tuple[Array, Array]:
    """Two arrays that np.matmul multiplies: vectors, matrices and batches that broadcast."""
    shapes = draw(
        hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=2, min_side=0, max_side=3)
    )
    first, second = (draw(arrays(ALL, st.just(shape))) for shape in shapes.input_shapes)
    return first, second


def assert_close(ours, expected):
    array = ours.numpy()
    assert (array.shape, array.dtype) == (expected.shape, expected.dtype)
    digits = {"e": 1e-2, "f": 1e-5, "F": 1e-5}.get(array.dtype.char, 1e-12)
    np.testing.assert_allclose(array, expected, rtol=digits)


@given(operands=factors())
def test_matmul_gives_numpys_values(operands):
    a, b = operands
    expected = np.asarray(np.matmul(*promoted("matmul", a, b)))
    assert_close(tensor.matmul(tensor.tensor(a), tensor.tensor(b)), expected)
    assert_close(tensor.tensor(a) @ tensor.tensor(b), expected)
    assert_close(a @ tensor.tensor(b), expected)
    assert_close(tensor.tensor(a) @ b, expected)


def test_matmul_names_shapes_that_do_not_fit():
    x, y = tensor.ones((2, 3)), tensor.ones((2, 3))
    with pytest.raises(
        ValueError, match=r"matmul.*float32\[2, 3\] and float32\[2, 3\].*second to last.*x\.mT"
    ):
        x @ y
    with pytest.raises(ValueError, match=r"matmul.*float32\[2, 1, 3\] and float32\[3, 3, 4\]"):
        tensor.ones((2, 1, 3)) @ tensor.ones((3, 3, 4))
    for number in (2, tensor.tensor(2.0)):
        with pytest.raises(ValueError, match=r"vectors and matrices, not numbers.*x \* y"):
            x @ number
    with pytest.raises(TypeError, match=r"matmul takes.*not str"):
        tensor.matmul(x, "text")
    with pytest.raises(TypeError, match=r"unsupported operand"):
        x @ "text"


def test_matmul_of_views_in_any_layout_and_of_a_tensor_with_itself():
    a = filled("float64", (3, 3), 0)
    x = tensor.tensor(a)
    assert_close(x.T @ x, a.T @ a)
    assert_close(x.flip(0)[:, ::2] @ x[::2].mT.mT, a[::-1, ::2] @ a[::2])


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("mm", (2, 3), (3, 4)), ("bmm", (5, 2, 3), (5, 3, 4)), ("mv", (2, 3), (3,)), ("dot", (3,), (3,))],
)
def test_methods_for_fixed_dimensions_take_just_these(name, first, second):
    a, b = filled("float64", first, 0), filled("float64", second, 1)
    assert_close(getattr(tensor.tensor(a), name)(tensor.tensor(b)), np.asarray(a @ b))
    with pytest.raises(ValueError, match=rf"{name}.*\(1, 1, 1, 1\)"):
        getattr(tensor.ones((1, 1, 1, 1)), name)(tensor.tensor(b))
    with pytest.raises(ValueError, match=rf"{name}|matmul"):
        getattr(tensor.tensor(a), name)(tensor.ones(tuple(n + 1 for n in second)))


def test_outer_takes_vectors():
    assert_same(tensor.outer(tensor.tensor([1, 2]), np.array([3, 4, 5])), np.outer([1, 2], [3, 4, 5]))
    with pytest.raises(ValueError, match=r"outer.*\(1, 2\)"):
        tensor.outer(tensor.ones((1, 2)), tensor.ones((2,)))


@pytest.mark.parametrize("axes", [0, 1, 2, ((1,), (0,)), ((0, 1), (1, 0)), ([-1], [0]), ((), ())])
def test_tensordot_gives_numpys_values(axes):
    a = filled("float64", (3, 3), 0)
    b = filled("float64", (3, 3), 1)
    assert_close(tensor.tensordot(tensor.tensor(a), tensor.tensor(b), axes=axes), np.tensordot(a, b, axes))


def test_tensordot_over_empty_dimensions_is_zero():
    assert tensor.tensordot(tensor.ones((2, 0)), tensor.ones((0, 3)), axes=1).tolist() == [[0.0] * 3] * 2


def test_tensordot_names_the_dimensions_that_do_not_fit():
    with pytest.raises(ValueError, match=r"tensordot.*\(2, 3\).*\(4, 3\)"):
        tensor.tensordot(tensor.ones((2, 3)), tensor.ones((4, 3)))
    with pytest.raises(ValueError, match=r"tensordot.*5"):
        tensor.tensordot(tensor.ones((2, 3)), tensor.ones((2, 3)), axes=5)


@pytest.mark.parametrize("dtype", ["int64", "float32", "complex128"])
def test_vecdot_conjugates_the_first_and_broadcasts(dtype):
    a, b = filled(dtype, (2, 3), 0), filled(dtype, (3,), 1)
    assert_close(tensor.vecdot(tensor.tensor(a), tensor.tensor(b)), np.vecdot(a, b))
    assert_close(tensor.vecdot(tensor.tensor(a), tensor.tensor(a), axis=0), np.vecdot(a, a, axis=0))
    with pytest.raises(ValueError, match=r"vecdot.*\(2, 3\).*\(2,\)"):
        tensor.vecdot(tensor.tensor(a), tensor.ones((2,)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 0), (0, 2)), ((2, 3, 4), (4, 0)), ((0, 2, 3), (3, 2)), ((2, 0), (0, 3)), ((3, 0), (0,)),
        ((0,), (0,)), ((0,), (0, 3)), ((2, 0, 3), (3, 4)), ((0, 3, 4), (4,)), ((2, 1, 0, 3), (4, 3, 0)),
        ((4,), (2, 4, 0)), ((4,), (0, 4, 2)),
    ],
)  # fmt: skip
def test_a_product_without_elements_has_gradients_of_zeros(a, b):
    x, y = tensor.ones(a, requires_grad=True), tensor.ones(b, requires_grad=True)
    (x @ y).sum().backward()
    assert (x.grad.shape, y.grad.shape) == (a, b)
    assert not x.grad.any()
    assert not y.grad.any()
