"""Named tuples that ops with several results return."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class ValuesAndIndices(NamedTuple):
    """What ``max``, ``min`` and ``sort`` along a dimension give: elements, and where they were."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """Values in order, and where each was."""

    values: Tensor
    indices: Tensor


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors in the columns of a matrix."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EigResult(NamedTuple):
    """Eigenvalues in no order, and eigenvectors of length 1 in the columns of a matrix; both complex."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """A matrix with orthonormal columns, and an upper triangular one, whose product is the original."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors in columns, singular values descending, right singular vectors in rows."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Frexp(NamedTuple):
    """What ``frexp`` gives: fractions between 0.5 and 1, and the powers of 2 beside them."""

    mantissa: Tensor
    exponent: Tensor


class Histogram(NamedTuple):
    """What ``histogram`` gives: how many elements lie in each bin, and where the bins begin and end."""

    hist: Tensor
    bin_edges: Tensor


class Extremes(NamedTuple):
    """What ``aminmax`` gives."""

    min: Tensor
    max: Tensor


class LUFactor(NamedTuple):
    """Both factors in one matrix, and LAPACK's pivots."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """The same, with the first pivot that is 0, counted from 1; 0 where none is."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class TriangularSolve(NamedTuple):
    """The solution, and a copy of the coefficients."""

    solution: Tensor
    cloned_coefficient: Tensor


class Reflectors(NamedTuple):
    """R, with the reflectors below its diagonal, and their factors."""

    a: Tensor
    tau: Tensor
