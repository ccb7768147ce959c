"""Linear algebra and Fourier transforms: NumPy's values in every dtype, and what has no answer is named."""

from __future__ import annotations

import numpy as np
import pytest

import tensor
from tensor import fft, linalg

rng = np.random.default_rng(0)
SQUARE = rng.normal(size=(2, 3, 3)) + 4 * np.eye(3)
POSITIVE = SQUARE @ SQUARE.swapaxes(-1, -2)
TALL = rng.normal(size=(2, 4, 3))
FUNCTIONS = {
    "cholesky": POSITIVE, "det": SQUARE, "eigh": POSITIVE, "eigvalsh": POSITIVE, "inv": SQUARE, "pinv": TALL,
    "matrix_rank": TALL, "qr": TALL, "slogdet": SQUARE, "svd": TALL, "svdvals": TALL, "matrix_norm": TALL,
}  # fmt: skip
EPS = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10, "complex64": 1e-4, "complex128": 1e-10}


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_matrices_of_each_dtype_give_numpys_values_in_it(name, dtype):
    array = FUNCTIONS[name].astype(dtype)
    exact = array.astype(np.result_type(array.dtype, np.float32))
    found = parts(getattr(linalg, name)(tensor.tensor(array)))
    for ours, expected in zip(found, parts(getattr(np.linalg, name)(exact)), strict=True):
        kept = np.float16 if dtype == "float16" and expected.dtype.kind == "f" else expected.dtype
        assert ours.dtype == kept
        np.testing.assert_allclose(ours.numpy(), expected, rtol=EPS[dtype], atol=EPS[dtype])


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
@pytest.mark.parametrize("keepdims", [False, True])
def test_each_norm_of_matrices_is_numpys(ord, keepdims):
    expected = np.linalg.norm(TALL, ord=ord, axis=(-2, -1), keepdims=keepdims)
    np.testing.assert_allclose(
        linalg.matrix_norm(tensor.tensor(TALL), ord=ord, keepdims=keepdims).numpy(), expected
    )


def test_recorded_results_are_those_without_gradients():
    for name, array in FUNCTIONS.items():
        plain, recorded = tensor.tensor(array), tensor.tensor(array, requires_grad=True)
        function = getattr(linalg, name)
        for x, y in zip(parts(function(plain)), parts(function(recorded)), strict=True):
            np.testing.assert_allclose(y.detach().numpy(), x.numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["inv", "solve"])
def test_a_singular_matrix_is_named_by_an_error_that_every_program_catches(name):
    x = tensor.zeros((2, 2))
    for kind in (ValueError, RuntimeError, np.linalg.LinAlgError, linalg.LinAlgError):
        with pytest.raises(kind, match=f"{name}: a matrix is singular"):
            linalg.inv(x) if name == "inv" else linalg.solve(x, tensor.ones((2,)))


def test_a_matrix_that_is_not_positive_definite_is_named():
    with pytest.raises(linalg.LinAlgError, match="cholesky: a matrix is not positive definite"):
        linalg.cholesky(-tensor.eye(2))
    with pytest.raises(ValueError, match=r"inv takes square matrices.*not shape \(2, 3\)"):
        linalg.inv(tensor.ones((2, 3)))
    with pytest.raises(ValueError, match=r"svd takes matrices.*not shape \(2,\)"):
        linalg.svd(tensor.ones((2,)))
    with pytest.raises(ValueError, match=r"ord must be 'fro'.*not 7"):
        linalg.matrix_norm(tensor.ones((2, 3)), ord=7)
    with pytest.raises(ValueError, match="mode must be 'reduced' or 'complete', not 'raw'"):
        linalg.qr(tensor.ones((2, 3)), mode="raw")


def test_a_complete_q_that_is_not_unique_has_no_gradient_and_says_so():
    x = tensor.tensor(TALL, requires_grad=True)
    with pytest.raises(ValueError, match="columns of the complete Q from index 3 on"):
        linalg.qr(x, mode="complete")
    assert linalg.qr(x.detach(), mode="complete").Q.shape == (2, 4, 4)


def test_a_singular_matrix_has_a_determinant_with_both_derivatives():
    x = tensor.tensor([[1.0, 2.0], [2.0, 4.0]], dtype="float64", requires_grad=True)
    (g,) = tensor.autograd.grad(linalg.det(x), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)
    (second,) = tensor.autograd.grad(g[0, 0], x)
    np.testing.assert_allclose(second.numpy(), [[0.0, 0.0], [0.0, 1.0]], atol=1e-12)


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(
    ("matrices", "cofactors"),
    [
        (
            [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 2.0], [3.0, 4.0]]],
            [[[4.0, -2.0], [-2.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], [[4.0, -3.0], [-2.0, 1.0]]],
        ),
        (np.diag([2.0, 3.0, 0.0]), np.diag([0.0, 0.0, 6.0])),
        (np.ones((3, 3)), np.zeros((3, 3))),
        (np.diag([2.0, 3.0, 0.0])[[1, 2, 0]], np.diag([0.0, 0.0, 6.0])[[1, 2, 0]]),
        ([[1, 1j], [1j, -1]], [[-1, 1j], [1j, 1]]),  # conjugate, as of all complex gradients
    ],
    ids=["a stack of any rank", "rank 2 of 3", "rank 1 of 3", "rows in another order", "complex"],
)
def test_the_gradient_of_a_determinant_is_the_cofactors_even_of_singular_matrices(
    matrices, cofactors, is_recorded
):
    x = tensor.tensor(np.asarray(matrices), requires_grad=True)
    (g,) = tensor.autograd.grad(linalg.det(x).real.sum(), x, create_graph=is_recorded)
    np.testing.assert_allclose(g.detach().numpy(), cofactors, atol=1e-12)


@pytest.mark.parametrize("dtype", EPS)
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "rfftn", "irfftn"])
def test_transforms_of_each_dtype_give_numpys_values(name, dtype):
    array = TALL.astype(dtype)
    if name in ("rfft", "rfftn", "ihfft") and dtype.startswith("complex"):
        with pytest.raises(TypeError, match=f"{name} takes real tensors, not {dtype}"):
            getattr(fft, name)(tensor.tensor(array))
        return
    exact = array.astype(np.result_type(array.dtype, np.float32))
    found, expected = getattr(fft, name)(tensor.tensor(array)), getattr(np.fft, name)(exact)
    np.testing.assert_allclose(found.numpy(), expected, rtol=EPS[dtype], atol=10 * EPS[dtype])
    assert found.dtype.itemsize <= expected.dtype.itemsize


def test_an_invalid_transform_is_named():
    x = tensor.ones((3,))
    with pytest.raises(ValueError, match=r"norm must be 'backward'.*not 'none'"):
        fft.fft(x, norm="none")
    with pytest.raises(ValueError, match="must be at least 1, not"):
        fft.fft(x, n=0)
    with pytest.raises(ValueError, match="2 sizes for 1 dimensions"):
        fft.fftn(x, s=(2, 2), axes=(0,))
    with pytest.raises(TypeError, match="returns floating numbers, not"):
        fft.fftfreq(3, dtype="int64")
