"""Named tuples that ops with several results return."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scopes._shared.naming import set_module

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class ValuesAndIndices(NamedTuple):
    """The result of ``max`` and ``min`` along a dimension: elements and their indices."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """Sorted values and their indices."""

    values: Tensor
    indices: Tensor


@set_module("tensor.linalg")
class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors in the columns of a matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@set_module("tensor.linalg")
class EigResult(NamedTuple):
    """Eigenvalues in no order, and eigenvectors of length 1 in the columns of a matrix; both complex."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@set_module("tensor.linalg")
class QRResult(NamedTuple):
    """A matrix with orthonormal columns and an upper triangular matrix. Their product is the original."""

    Q: Tensor
    R: Tensor


@set_module("tensor.linalg")
class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values descending, right singular vectors in rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Frexp(NamedTuple):
    """The result of ``frexp``: mantissas, 0 or of absolute value 0.5 to 1, and exponents of 2."""

    mantissa: Tensor
    exponent: Tensor


class Histogram(NamedTuple):
    """The result of ``histogram``: the number of elements in each bin, and the edges of the bins."""

    hist: Tensor
    bin_edges: Tensor


class Extremes(NamedTuple):
    """The result of ``aminmax``."""

    min: Tensor
    max: Tensor


class LUFactor(NamedTuple):
    """An LU factorization: both factors in one matrix, and LAPACK's pivots."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """Like `LUFactor`. `info` is the number of the first zero pivot, counted from 1, or 0 for none."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class TriangularSolve(NamedTuple):
    """The solution, and a copy of the coefficients."""

    solution: Tensor
    cloned_coefficient: Tensor


class Reflectors(NamedTuple):
    """The result of ``geqrf``: R with the Householder reflectors below its diagonal, and their factors."""

    a: Tensor
    tau: Tensor
