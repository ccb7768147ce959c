"""Methods for functions of `tensor.linalg`, and other methods of PyTorch for matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scopes.lowlevel import ModuleOnDemand
from tensor._dtypes import is_floating, is_inexact
from tensor._errors import InvalidArgumentError
from tensor.core.dims import sizes_of
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.ops import elementwise as f
from tensor.ops.data import as_tensor
from tensor.ops.in_place import with_in_place
from tensor.ops.linalg import matmul
from tensor.ops.matrices import plus_product

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops import factorizations, solving
    from tensor.ops.results import QRResult
else:
    factorizations = ModuleOnDemand("tensor.ops.factorizations")
    solving = ModuleOnDemand("tensor.ops.solving")

# The number of terms of the exponential series, for an error of 1e-16 for matrices of norm 1/2.
_TERMS = 16


@with_in_place("addbmm")
class Decomposing(TensorCore):
    """Factorizations, and functions of matrices, with PyTorch's names."""

    __slots__ = ()

    @composite
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return `beta` times the tensor plus `alpha` times the sum of the products of matrices.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).addbmm(tensor.ones((2, 1, 3)), tensor.ones((2, 3, 1))).tolist()
        [[7.0]]
        """
        product = as_tensor(batch1).bmm(batch2)
        product = product.sum(0, dtype=product.dtype)
        return plus_product(self, product, beta, alpha)

    @composite
    def cholesky(self, upper: bool = False) -> Tensor:
        """Return the triangular factor of positive definite matrices: `tensor.linalg.cholesky`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[4.0]]).cholesky().tolist()
        [[2.0]]
        """
        return factorizations.cholesky(as_tensor(self), upper=upper)

    @composite
    def qr(self, some: bool = True) -> QRResult:
        """Return Q and R: `tensor.linalg.qr`; with ``some=False`` Q is square.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3, 2)).qr().Q.shape
        (3, 2)
        """
        return factorizations.qr(as_tensor(self), mode="reduced" if some else "complete")

    @composite
    def svd(self, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Return U, S and V with ``x = U @ diag(S) @ V.mH``. `tensor.linalg.svd` returns V.mH.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((3, 2)).svd()]
        [(3, 2), (2,), (2, 2)]
        """
        x = as_tensor(self)
        if not compute_uv:
            rows, columns = x.shape[-2:]
            batch = x.shape[:-2]
            none = x.new_zeros((*batch, rows, rows)), x.new_zeros((*batch, columns, columns))
            return none[0], factorizations.svdvals(x), none[1]
        u, s, vh = factorizations.svd(x, full_matrices=not some)
        return u, s, vh.mH

    @composite
    def logdet(self) -> Tensor:
        """Return the logarithm of the determinants; nan for negative ones.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1.0]]).logdet().item()
        0.0
        """
        sign, logarithm = solving.slogdet(as_tensor(self))
        return f.where(f.less(sign, 0), math.nan, logarithm)

    @composite
    def pinverse(self, rcond: float = 1e-15) -> Tensor:
        """Return the pseudo-inverse: `tensor.linalg.pinv`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[2.0]]).pinverse().tolist()
        [[0.5]]
        """
        return solving.pinv(as_tensor(self), rtol=rcond)

    @composite
    def inverse(self) -> Tensor:
        """Return the inverse: `tensor.linalg.inv`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[2.0]]).inverse().tolist()
        [[0.5]]
        """
        return solving.inv(as_tensor(self))

    @composite
    def kron(self, other: Tensor) -> Tensor:
        """Return the Kronecker product: blocks of `other`, each times one element of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2]]).kron(tensor.tensor([[1, 1]])).tolist()
        [[1, 1, 2, 2]]
        """
        a, b = as_tensor(self), as_tensor(other)
        rank = max(a.ndim, b.ndim)
        first = (1,) * (rank - a.ndim) + a.shape
        second = (1,) * (rank - b.ndim) + b.shape
        spread = a.reshape([n for size in first for n in (size, 1)])
        inner = b.reshape([n for size in second for n in (1, size)])
        return (spread * inner).reshape([n * m for n, m in zip(first, second, strict=True)])

    @composite
    def matrix_exp(self) -> Tensor:
        """Return the exponentials of square matrices, by scaling and squaring: exp(x / 2**n) ** 2**n.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 2)).matrix_exp().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        x = as_tensor(self)
        if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
            raise InvalidArgumentError(f"matrix_exp takes square matrices, not shape {x.shape}")
        if not is_inexact(x.dtype):
            raise TypeError(f"matrix_exp takes floating tensors, not {x.dtype}: convert it with x.float()")
        given = x.dtype
        x = x.to(np.float64 if is_floating(given) else np.complex128)  # squaring increases the error
        norms = np.abs(x._live_array()).sum(-2)
        norm = float(norms.max()) if norms.size else 0.0
        times = max(0, math.ceil(math.log2(norm)) + 1) if 0 < norm < math.inf else 0
        part = f.multiply(x, 0.5**times)
        one = x.new_ones((x.shape[-1],)).diag()
        out = one + part / _TERMS
        for i in range(_TERMS - 1, 0, -1):
            out = one + matmul(part, out) / i
        for _ in range(times):
            out = matmul(out, out)
        return out.to(given)

    @composite
    def diagflat(self, offset: int = 0) -> Tensor:
        """Return a matrix with the elements of the flattened tensor on a diagonal.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1], [2]]).diagflat().tolist()
        [[1, 0], [0, 2]]
        """
        return as_tensor(self).reshape(-1).diag_embed(offset)

    @composite
    def sum_to_size(self, *size: int | Sequence[int]) -> Tensor:
        """Return the tensor summed to the shape `size`, which broadcasts to the tensor's shape.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).sum_to_size(1, 3).tolist()
        [[2.0, 2.0, 2.0]]
        """
        x = as_tensor(self)
        wanted = sizes_of("sum_to_size", size)
        ahead = x.ndim - len(wanted)
        fits = ahead >= 0 and all(n in (1, m) for n, m in zip(wanted, x.shape[max(ahead, 0) :], strict=True))
        if not fits:
            raise InvalidArgumentError(
                f"sum_to_size: {wanted} must broadcast to shape {x.shape}, but does not"
            )
        over = [
            *range(ahead),
            *[i + ahead for i, n in enumerate(wanted) if n == 1 and x.shape[i + ahead] != 1],
        ]
        if x.shape == wanted and wanted:
            return x
        out = x.sum(tuple(over), True) if over or x.dtype.kind == "b" else x
        return out.reshape(wanted) if ahead else out
