"""The functions that derivatives call while they are recorded themselves: tensor's, under NumPy's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.creation.from_data import ones, ones_like, zeros, zeros_like
from tensor.creation.ranges import arange, eye
from tensor.kernels.scatter_add import scatter_add
from tensor.ops import elementwise, fourier, moving, reductions, scans, shapes, solving
from tensor.ops.casts import astype
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply
from tensor.ops.einsum import einsum
from tensor.ops.expanding import broadcast_to
from tensor.ops.joining import concat, stack
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _scatter_add(values: Tensor, key: tuple[Any, ...], shape: tuple[int, ...]) -> Tensor:
    return apply(RULES["scatter_add"], lambda array: scatter_add(array, key, shape), (values,), key=key)


def _keep_where(x: Any, mask: Any) -> Any:
    return elementwise.where(mask, x, 0)


def _where_nonzero(x: Any, by: Any) -> Any:
    return _keep_where(x, by != 0)


def _slope(name: str, g: Any, x: Any, formula: Callable[..., Any]) -> Any:
    del name
    return formula(Functions, g, x)


def _scaled_product(g: Any, number: Any, x: Any) -> Any:
    product = number * x
    return g * (product.conj() if product.dtype.kind == "c" else product)


class Functions:
    """What derivatives ask for of the array API standard, and the little that it does not name."""

    is_recorded = True

    abs = elementwise.abs
    any = reductions.any
    arange = arange
    asarray = _asarray
    astype = astype
    broadcast_to = broadcast_to
    concat = concat
    conj = elementwise.conj
    copysign = elementwise.copysign
    cos = elementwise.cos
    cosh = elementwise.cosh
    cumulative_prod = scans.cumulative_prod
    cumulative_sum = scans.cumulative_sum
    divide = elementwise.divide
    einsum = _einsum
    erf = elementwise.erf
    exp = elementwise.exp
    expand_dims = shapes.expand_dims
    expm1 = elementwise.expm1
    eye = eye
    fft = fourier
    flip = moving.flip
    floor_divide = elementwise.floor_divide
    int64 = np.int64
    isnan = elementwise.isnan
    linalg = solving  # of NumPy's namespace of this name, what derivatives ask for
    keep_where = _keep_where
    log = elementwise.log
    log1p = elementwise.log1p
    logaddexp = elementwise.logaddexp
    matmul = linalg.matmul
    matrix_transpose = shapes.matrix_transpose
    max = reductions.max
    maximum = elementwise.maximum
    mean = reductions.mean
    min = reductions.min
    minimum = elementwise.minimum
    multiply = elementwise.multiply
    negative = elementwise.negative
    ones = ones
    ones_like = ones_like
    permute_dims = shapes.permute_dims
    pow = elementwise.pow
    prod = reductions.prod
    real = _real
    reshape = shapes.reshape
    roll = moving.roll
    scaled_product = staticmethod(_scaled_product)
    scatter_add = _scatter_add
    sigmoid = elementwise.sigmoid
    sign = elementwise.sign
    sin = elementwise.sin
    sinh = elementwise.sinh
    slope = staticmethod(_slope)
    softmax = scans.softmax
    sqrt = elementwise.sqrt
    square = elementwise.square
    stack = stack
    sum = reductions.sum
    tanh = elementwise.tanh
    tril = moving.tril
    triu = moving.triu
    where = elementwise.where
    where_nonzero = _where_nonzero
    zeros = zeros
    zeros_like = zeros_like
