"""LU, Cholesky's and Householder's factors, and solutions by them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensor
import tensor.torch as torch

ANY = [(3, 3), (2, 4, 3), (3, 5), (0, 2, 2), (2, 0, 0)]


@pytest.mark.parametrize("shape", ANY)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_the_product_of_lu_factors_is_the_matrix(shape: tuple[int, ...], dtype: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape).to(dtype)
    if dtype == "complex128":
        x = x + 1j * torch.randn(shape).double()
    p, lower, upper = torch.linalg.lu(x)
    assert torch.allclose(p @ lower @ upper, x, atol=1e-6 if dtype == "float32" else 1e-14)
    m, n = shape[-2:]
    k = min(m, n)
    assert (p.shape[-2:], lower.shape[-2:], upper.shape[-2:]) == ((m, m), (m, k), (k, n))
    assert bool(((p == 0) | (p == 1)).all())
    assert bool((p.sum(-1) == 1).all())
    assert lower.equal(lower.tril())
    assert bool((lower.diagonal(0, -2, -1) == 1).all())
    assert upper.equal(upper.triu())
    # The pivot of a column is its largest element, of complex ones by |real| + |imag|.
    largest = math.sqrt(2) if dtype == "complex128" else 1.0
    assert bool((lower.abs() <= largest + 1e-6).all())
    for got, expected in zip(torch.lu_unpack(*torch.linalg.lu_factor(x)), (p, lower, upper), strict=True):
        assert got.equal(expected)


def test_solutions_by_factors_solve_from_both_sides() -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 3, 3).double(), torch.randn(2, 3, 3).double()
    factors, pivots = torch.linalg.lu_factor(a)
    for left in (True, False):
        for adjoint in (True, False):
            x = torch.linalg.lu_solve(factors, pivots, b, left=left, adjoint=adjoint)
            of = a.mH if adjoint else a
            assert torch.allclose(of @ x if left else x @ of, b)
    spd = a @ a.mT + torch.eye(3).double()
    for upper in (True, False):
        factor = torch.linalg.cholesky(spd, upper=upper)
        assert torch.allclose(spd @ b.cholesky_solve(factor, upper), b)
        assert torch.allclose(factor.cholesky_inverse(upper), spd.inverse())


def test_reflectors_make_q() -> None:
    torch.manual_seed(0)
    x, c = torch.randn(4, 3).double(), torch.randn(4, 2).double()
    a, tau = torch.geqrf(x)
    q = torch.linalg.householder_product(a, tau)
    assert torch.allclose(q @ a[:3].triu(), x)
    whole = torch.ormqr(a, tau, torch.eye(4).double())
    assert torch.allclose(whole @ whole.mT, torch.eye(4).double())
    assert torch.allclose(torch.ormqr(a, tau, c, transpose=True), whole.mT @ c)
    assert torch.allclose(torch.ormqr(a, tau, c.mT, left=False), c.mT @ whole)


def test_singular_matrices_are_reported_one_by_one() -> None:
    x = torch.stack([torch.eye(2), torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [1.0, 1.0]])])
    assert torch.linalg.inv_ex(x).info.tolist() == [0, 1, 2]
    assert torch.linalg.solve_ex(x, torch.ones(3, 2)).info.tolist() == [0, 1, 2]
    assert torch.linalg.cholesky_ex(torch.stack([torch.eye(2), -torch.eye(2)])).info.tolist() == [0, 1]
    with pytest.raises(
        torch.linalg.LinAlgError, match="inv_ex: at least one matrix has no result: write check_errors=False"
    ):
        torch.linalg.inv_ex(x, check_errors=True)
    with pytest.raises(ValueError, match="pivot=False works only on CUDA"):
        torch.linalg.lu_factor(x, pivot=False)


def test_pairs_are_views_of_complex_numbers() -> None:
    z = tensor.tensor([1 + 2j, 3 + 4j])
    pairs = torch.view_as_real(z)
    pairs[0, 1] = 9.0
    assert z.tolist() == [1 + 9j, 3 + 4j]
    assert torch.view_as_complex(pairs).tolist() == z.tolist()
    assert torch.view_as_real(torch.stack([z, z]).mT).shape == (2, 2, 2)
    with pytest.raises(ValueError, match=r"Write view_as_complex\(x.contiguous\(\)\)"):
        torch.view_as_complex(torch.ones(2, 3).mT)
    with pytest.raises(ValueError, match="takes a complex tensor, not float32"):
        torch.view_as_real(torch.ones(2))


def test_a_view_by_strides_shares_memory_and_stays_inside() -> None:
    x = torch.arange(6.0)
    windows = x.as_strided((3, 2), (2, 1))
    windows[0, 0] = 9.0
    assert x[0] == 9.0
    x = torch.ones(4, requires_grad=True)
    x.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 2.0, 1.0]
    part = torch.arange(6.0)[2:]
    assert part.as_strided((2,), (1,)).tolist() == [2.0, 3.0]
    assert part.as_strided((2,), (1,), 3).tolist() == [3.0, 4.0]
    for view in (lambda: part.as_strided((2,), (1,), 0), lambda: x.as_strided((5,), (1,))):
        with pytest.raises(ValueError, match="reach from element"):
            view()
    with pytest.raises(ValueError, match=r"contiguous tensor: write x.contiguous\(\)"):
        torch.ones(2, 3).t().as_strided((2,), (1,))


def test_istft_restores_a_signal_from_its_stft() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 100).double()
    window = torch.signal.windows.hann(16, dtype=torch.float64)
    for onesided in (True, False):
        spectra = x.stft(32, 8, 16, window, onesided=onesided, normalized=True, return_complex=True)
        back = spectra.istft(32, 8, 16, window, onesided=onesided, normalized=True, length=100)
        assert torch.allclose(back, x)
    with pytest.raises(ValueError, match="write return_complex=True"):
        x.stft(32)
    with pytest.raises(ValueError, match="the squares of the windows add up to 0"):
        torch.ones(17, 3).to("complex64").istft(32, 32, window=torch.zeros(32))


@pytest.mark.parametrize("order", [0, 1])
def test_bessel_functions_are_their_series(order: int) -> None:
    x = np.linspace(-20, 20, 81)
    terms = [
        (x / 2) ** (2 * k + order)
        / (float(np.prod(np.arange(1.0, k + 1))) * np.prod(np.arange(1.0, k + order + 1)))
        for k in range(60)
    ]
    found = (torch.special.i0 if order == 0 else torch.special.i1)(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, np.sum(terms, axis=0), rtol=1e-11)


def test_far_tails_keep_their_digits() -> None:
    x = torch.tensor([-30.0, -5.0, 0.5, 4.0], dtype=torch.float64)
    assert torch.allclose(torch.special.ndtri(torch.special.log_ndtr(x).exp()), x, rtol=1e-6)
    assert torch.special.log_ndtr(torch.tensor([-1e4])).item() == pytest.approx(-5.00000101e7, rel=1e-6)
    assert torch.special.erfcx(torch.tensor([1e6])).item() == pytest.approx(5.6418958e-7)
    assert torch.special.i0e(torch.tensor([1e6])).item() == pytest.approx(3.9894233e-4)


@pytest.mark.parametrize("p", [1, "fro", float("inf"), "nuc"])
def test_a_singular_matrix_of_several_has_an_infinite_condition_number_alone(p: float | str) -> None:
    regular = torch.tensor([[1.0, 2.0], [3.0, 5.0]])
    found = torch.linalg.cond(torch.stack([regular, torch.zeros(2, 2)]), p)
    assert found[1].item() == float("inf")
    assert found[0].item() == pytest.approx(np.linalg.cond(regular.numpy(), p), rel=1e-4)
    assert torch.linalg.cond(torch.zeros(2, 0, 0, dtype=torch.complex64), p).dtype == torch.float32


def test_least_squares_by_gels_ignore_the_limit_of_singular_values() -> None:
    a, b = torch.tensor([[1.0, 0.0], [0.0, 0.1], [0.0, 0.0]]), torch.tensor([[2.0], [3.0], [4.0]])
    found = torch.linalg.lstsq(a, b, rcond=0.5, driver="gels")
    assert found.solution.round(decimals=3).tolist() == [[2.0], [30.0]]
    assert found.residuals.tolist() == pytest.approx([16.0], rel=1e-5)
    limited = torch.linalg.lstsq(a, b, rcond=0.5, driver="gelsd")
    assert limited.solution.round(decimals=3).tolist() == [[2.0], [0.0]]
