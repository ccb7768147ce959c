# Written by .ci/write-stubs.
from tensor.ops.factorizations import cholesky as cholesky
from tensor.ops.factorizations import eig as eig
from tensor.ops.factorizations import eigh as eigh
from tensor.ops.factorizations import eigvals as eigvals
from tensor.ops.factorizations import eigvalsh as eigvalsh
from tensor.ops.factorizations import qr as qr
from tensor.ops.factorizations import svd as svd
from tensor.ops.factorizations import svdvals as svdvals
from tensor.ops.lapack import LinAlgError as LinAlgError
from tensor.ops.linalg import cross as cross
from tensor.ops.linalg import diagonal as diagonal
from tensor.ops.linalg import matmul as matmul
from tensor.ops.linalg import outer as outer
from tensor.ops.linalg import tensordot as tensordot
from tensor.ops.linalg import trace as trace
from tensor.ops.linalg import vecdot as vecdot
from tensor.ops.norms import matrix_norm as matrix_norm
from tensor.ops.norms import matrix_rank as matrix_rank
from tensor.ops.results import EighResult as EighResult
from tensor.ops.results import EigResult as EigResult
from tensor.ops.results import QRResult as QRResult
from tensor.ops.results import SVDResult as SVDResult
from tensor.ops.scans import vector_norm as vector_norm
from tensor.ops.shapes import matrix_transpose as matrix_transpose
from tensor.ops.solving import SlogdetResult as SlogdetResult
from tensor.ops.solving import det as det
from tensor.ops.solving import inv as inv
from tensor.ops.solving import matrix_power as matrix_power
from tensor.ops.solving import pinv as pinv
from tensor.ops.solving import slogdet as slogdet
from tensor.ops.solving import solve as solve

__all__ = ['EigResult', 'EighResult', 'LinAlgError', 'QRResult', 'SVDResult', 'SlogdetResult', 'cholesky', 'cross', 'det', 'diagonal', 'eig', 'eigh', 'eigvals', 'eigvalsh', 'inv', 'matmul', 'matrix_norm', 'matrix_power', 'matrix_rank', 'matrix_transpose', 'outer', 'pinv', 'qr', 'slogdet', 'solve', 'svd', 'svdvals', 'tensordot', 'trace', 'vecdot', 'vector_norm']
