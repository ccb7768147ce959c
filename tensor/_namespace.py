"""The functions that derivatives call while they are recorded themselves: tensor's, under NumPy's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor import _elementwise, _linalg, _moving, _reductions, _scans, _shapes
from tensor._activations import erf, sigmoid
from tensor._casts import astype
from tensor._creation import as_tensor, ones, ones_like, zeros, zeros_like
from tensor._derivatives import RULES
from tensor._dispatch import apply
from tensor._einsum import einsum
from tensor._expanding import broadcast_to
from tensor._joining import concat, stack
from tensor._pooled import leave
from tensor._ranges import arange, eye
from tensor._spreading import spread

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def _asarray(x: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    made = as_tensor(x)
    if dtype is not None and made.dtype != dtype:
        return astype(made, dtype)
    return made.clone() if copy else made


def _einsum(equation: str, *factors: Any, optimize: bool = False) -> Tensor:
    del optimize  # of tensors the best order is always looked for
    return einsum(equation, *factors)


def _real(x: Any) -> Any:
    return x.real if x.dtype.kind == "c" else x


def _spread(values: Tensor, key: tuple[Any, ...], shape: tuple[int, ...]) -> Tensor:
    return apply(RULES["spread"], lambda array: spread(leave(array), key, shape), (values,), key=key)


def _keep_where(x: Any, mask: Any) -> Any:
    return _elementwise.where(mask, x, 0)


def _where_nonzero(x: Any, by: Any) -> Any:
    return _keep_where(x, by != 0)


class Functions:
    """What derivatives ask for of the array API standard, and the little that it does not name."""

    is_recorded = True

    abs = _elementwise.abs
    any = _reductions.any
    arange = arange
    asarray = _asarray
    astype = astype
    broadcast_to = broadcast_to
    concat = concat
    conj = _elementwise.conj
    copysign = _elementwise.copysign
    cos = _elementwise.cos
    cosh = _elementwise.cosh
    cumulative_prod = _scans.cumulative_prod
    cumulative_sum = _scans.cumulative_sum
    einsum = _einsum
    erf = erf
    exp = _elementwise.exp
    expand_dims = _shapes.expand_dims
    expm1 = _elementwise.expm1
    eye = eye
    flip = _moving.flip
    floor_divide = _elementwise.floor_divide
    int64 = np.int64
    isnan = _elementwise.isnan
    keep_where = _keep_where
    log = _elementwise.log
    log1p = _elementwise.log1p
    logaddexp = _elementwise.logaddexp
    matmul = _linalg.matmul
    matrix_transpose = _shapes.matrix_transpose
    max = _reductions.max
    maximum = _elementwise.maximum
    mean = _reductions.mean
    min = _reductions.min
    minimum = _elementwise.minimum
    ones = ones
    ones_like = ones_like
    permute_dims = _shapes.permute_dims
    prod = _reductions.prod
    real = _real
    reshape = _shapes.reshape
    roll = _moving.roll
    sigmoid = sigmoid
    sign = _elementwise.sign
    sin = _elementwise.sin
    sinh = _elementwise.sinh
    spread = _spread
    sqrt = _elementwise.sqrt
    square = _elementwise.square
    stack = stack
    sum = _reductions.sum
    tanh = _elementwise.tanh
    tril = _moving.tril
    triu = _moving.triu
    where = _elementwise.where
    where_nonzero = _where_nonzero
    zeros = zeros
    zeros_like = zeros_like
