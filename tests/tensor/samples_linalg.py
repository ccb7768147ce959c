"""Samples of linear algebra and Fourier transforms, for the gradient checker.

Vectors of a spectrum are known up to their sign, complex ones up to a factor of size 1: functions of them
take products in which it cancels.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import tensor
from tensor import Tensor, fft, linalg
from tensor.ops.rare.lu import factorize
from tests.tensor.gradients import Sample


def shifted(x: Tensor) -> Tensor:
    """Matrices far from singular ones."""
    return x + 4 * tensor.eye(x.shape[-1], dtype=x.dtype)


def hermitian(x: Tensor) -> Tensor:
    return x + x.mH


def positive(x: Tensor) -> Tensor:
    return x @ x.mH + 2 * tensor.eye(x.shape[-1], dtype=x.dtype)


def without_phase(vectors: Tensor) -> Tensor:
    """Vectors in columns, multiplied by the conjugate of their first elements."""
    return vectors * vectors[..., :1, :].conj()


def polar(x: Tensor) -> Tensor:
    u, _, vh = linalg.svd(x, full_matrices=False)
    return u @ vh


SQUARE = ((3, 3), (2, 3, 3))
TALL = (*SQUARE, (4, 2), (2, 3, 2))
ANY = (*TALL, (2, 4))

SOLVING: list[Sample] = [
    *[Sample("inv", lambda x: linalg.inv(shifted(x)), (shape,)) for shape in SQUARE],
    *[Sample("det", linalg.det, (shape,)) for shape in (*SQUARE, (1, 1))],
    *[
        Sample("slogdet_logabsdet", lambda x: linalg.slogdet(shifted(x)).logabsdet, (shape,))
        for shape in SQUARE
    ],
    *[Sample("slogdet_sign", lambda x: linalg.slogdet(shifted(x)).sign, (shape,)) for shape in SQUARE],
    *[
        Sample("solve", lambda a, b: linalg.solve(shifted(a), b), shapes)
        for shapes in (
            ((3, 3), (3,)),
            ((3, 3), (3, 2)),
            ((2, 3, 3), (3,)),
            ((2, 3, 3), (3, 1)),
            ((2, 2), (3, 2, 1)),
        )
    ],
    *[Sample("pinv", linalg.pinv, (shape,)) for shape in ((4, 2), (2, 3, 2), (2, 4))],
    *[Sample("matmul", lambda x, n=n: linalg.matrix_power(x, n), ((2, 3, 3),)) for n in (2, 5)],
    Sample("inv", lambda x: linalg.matrix_power(shifted(x), -3), ((3, 3),)),
]

FACTORIZATIONS: list[Sample] = [
    *[
        Sample("cholesky", lambda x, upper=upper: linalg.cholesky(positive(x), upper=upper), (shape,))
        for shape in SQUARE
        for upper in (False, True)
    ],
    *[Sample("eigh_values", lambda x: linalg.eigvalsh(hermitian(x)), (shape,)) for shape in SQUARE],
    *[
        Sample("eigh_vectors", lambda x: without_phase(linalg.eigh(hermitian(x)).eigenvectors), (shape,))
        for shape in SQUARE
    ],
    *[Sample("eig_values", linalg.eigvals, (shape,)) for shape in SQUARE],
    *[
        Sample("eig_vectors", lambda x: without_phase(linalg.eig(x).eigenvectors), (shape,))
        for shape in SQUARE
    ],
    *[Sample("svd_s", linalg.svdvals, (shape,)) for shape in ANY],
    *[
        Sample("svd_u", lambda x: without_phase(linalg.svd(x, full_matrices=False).U), (shape,))
        for shape in ANY
    ],
    *[
        Sample("svd_vh", lambda x: without_phase(linalg.svd(x, full_matrices=False).Vh.mH), (shape,))
        for shape in ANY
    ],
    *[Sample("svd_u", polar, (shape,)) for shape in ANY],
    Sample("svd_vh", lambda x: without_phase(linalg.svd(x).Vh.mH[..., :2]), ((2, 4),)),
    Sample("svd_u", lambda x: without_phase(linalg.svd(x).U[..., :2]), ((4, 2),)),
    *[Sample("lu_lower", lambda x: factorize(x).lower, (shape,)) for shape in ANY],
    *[Sample("lu_upper", lambda x: factorize(x).upper, (shape,)) for shape in ANY],
    *[Sample("qr_q", lambda x: linalg.qr(x).Q, (shape,)) for shape in ANY],
    *[Sample("qr_r", lambda x: linalg.qr(x).R, (shape,)) for shape in ANY],
    Sample("qr_r", lambda x: linalg.qr(x, mode="complete").R, ((2, 4),)),
    *[
        Sample(
            "vector_norm" if ord == "fro" else "svd_s" if ord in ("nuc", 2, -2) else "max", norm, ((2, 3, 2),)
        )
        for ord, norm in {
            ord: (lambda x, ord=ord: linalg.matrix_norm(x, ord=ord)) for ord in ("fro", "nuc", 1, 2, np.inf)
        }.items()
    ],
]


RULES = {
    "fft": "fftn",
    "ifft": "ifftn",
    "rfft": "rfftn",
    "irfft": "irfftn",
    "hfft": "irfftn",
    "ihfft": "rfftn",
}


def _transforms(*names: str) -> list[Sample]:
    """Along one dimension: as long as it is, cut off, filled up, and divided by each of the norms."""
    return [
        Sample(RULES[name], partial(getattr(fft, name), n=n, axis=axis, norm=norm), ((3, 4),))
        for name in names
        for n, axis, norm in (
            (None, 0, "backward"),
            (2, 1, "backward"),
            (6, 0, "forward"),
            (5, -1, "backward"),
            (5, -1, "ortho"),
            (5, -1, "forward"),
        )
    ]


def _transforms_of_several(*names: str) -> list[Sample]:
    return [
        Sample(name, partial(getattr(fft, name), s=s, axes=axes), ((2, 3, 4),))
        for name in names
        for s, axes in ((None, None), ((4, 3), (1, 2)), ((2, 5), (2, 0)))
    ]


FOURIER: list[Sample] = [
    *_transforms("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
    *_transforms_of_several("fftn", "ifftn", "rfftn", "irfftn"),
    Sample("roll", fft.fftshift, ((3, 4),)),
    Sample("roll", lambda x: fft.ifftshift(x, axes=1), ((3, 4),)),
]

REAL = [*SOLVING, *FACTORIZATIONS, *FOURIER]
COMPLEX = [
    sample._replace(dtype=np.complex128)
    for sample in [
        *SOLVING,
        *FACTORIZATIONS,
        *_transforms("fft", "ifft", "irfft", "hfft"),
        *_transforms_of_several("fftn", "ifftn", "irfftn"),
    ]
]
