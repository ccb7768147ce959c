"""Linear algebra: the ``linalg`` extension of the array API standard, and derivatives.

Matrices are the last two dimensions; all other dimensions are a batch. Integers become float32, except in
products, traces and views. Functions with several results return named tuples.
"""

from scopes._shared.clearing import clear_errors_of as _clear_errors_of
from scopes._shared.on_demand import public_names as _public_names
from tensor.ops.factorizations import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from tensor.ops.lapack import LinAlgError
from tensor.ops.linalg import cross, diagonal, matmul, outer, tensordot, trace, vecdot
from tensor.ops.norms import matrix_norm, matrix_rank
from tensor.ops.results import EighResult, EigResult, QRResult, SVDResult
from tensor.ops.scans import vector_norm
from tensor.ops.shapes import matrix_transpose
from tensor.ops.solving import SlogdetResult, det, inv, matrix_power, pinv, slogdet, solve

__all__ = _public_names(globals())

_clear_errors_of(globals(), __all__)
