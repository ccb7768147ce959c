"""The functions for recorded derivatives: the functions of `tensor`, under NumPy's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

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
from tensor.ops.gamma import bessel_i, polygamma
from tensor.ops.joining import concat, stack
from tensor.ops.linalg import matmul
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def _asarray(x: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    made = as_tensor(x)
    if dtype is not None and made.dtype != dtype:
        return astype(made, dtype)
    return made.clone() if copy else made


def _einsum(equation: str, *factors: Any, optimize: bool = False) -> Tensor:
    del optimize  # tensors always use the best order
    return einsum(equation, *factors)


def _real(x: Any) -> Any:
    return x.real if x.dtype.kind == "c" else x


def _imag(x: Any) -> Any:
    return x.imag


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
    """The functions of the array API standard that derivatives use, and a few more."""

    is_recorded = True

    abs: Final = elementwise.abs
    any: Final = reductions.any
    arange = arange
    asarray = _asarray
    astype = astype
    broadcast_to = broadcast_to
    concat = concat
    conj: Final = elementwise.conj
    copysign: Final = elementwise.copysign
    cos: Final = elementwise.cos
    cosh: Final = elementwise.cosh
    cumulative_prod: Final = scans.cumulative_prod
    cumulative_sum: Final = scans.cumulative_sum
    divide: Final = elementwise.divide
    einsum = _einsum
    erf: Final = elementwise.erf
    exp: Final = elementwise.exp
    expand_dims: Final = shapes.expand_dims
    expm1: Final = elementwise.expm1
    eye = eye
    fft = fourier
    flip: Final = moving.flip
    floor_divide: Final = elementwise.floor_divide
    int64 = np.int64
    isnan: Final = elementwise.isnan
    linalg = solving  # the functions of numpy.linalg that derivatives use
    keep_where = _keep_where
    log: Final = elementwise.log
    log1p: Final = elementwise.log1p
    logaddexp: Final = elementwise.logaddexp
    matmul: Final = matmul
    matrix_transpose: Final = shapes.matrix_transpose
    max: Final = reductions.max
    maximum: Final = elementwise.maximum
    mean: Final = reductions.mean
    min: Final = reductions.min
    minimum: Final = elementwise.minimum
    multiply: Final = elementwise.multiply
    negative: Final = elementwise.negative
    ones = ones
    ones_like = ones_like
    permute_dims: Final = shapes.permute_dims
    bessel_i = bessel_i
    polygamma = polygamma
    pow: Final = elementwise.pow
    prod: Final = reductions.prod
    imag = _imag
    real = _real
    reshape: Final = shapes.reshape
    roll: Final = moving.roll
    scaled_product: Final = staticmethod(_scaled_product)
    scatter_add = _scatter_add
    sigmoid: Final = elementwise.sigmoid
    sign: Final = elementwise.sign
    sin: Final = elementwise.sin
    sinh: Final = elementwise.sinh
    slope: Final = staticmethod(_slope)
    softmax: Final = scans.softmax
    sqrt: Final = elementwise.sqrt
    square: Final = elementwise.square
    stack = stack
    sum: Final = reductions.sum
    tanh: Final = elementwise.tanh
    tril: Final = moving.tril
    triu: Final = moving.triu
    where: Final = elementwise.where
    where_nonzero = _where_nonzero
    zeros = zeros
    zeros_like = zeros_like
