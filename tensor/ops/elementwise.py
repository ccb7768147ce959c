"""Elementwise functions, with the names of the array API standard and a few of PyTorch's.

The namespace `tensor` exports them. Most run one op of ``tensor/ops/table.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.promotion import promoted, with_numbers
from tensor.kernels.selecting import where as place_where
from tensor.kernels.ufuncs import compute_into, is_place_of
from tensor.ops import table
from tensor.ops.data import as_data
from tensor.ops.dispatch import apply, apply_into
from tensor.ops.messages import Operand
from tensor.ops.outputs import copy_out, run_op_into
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "allclose",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsigmoid",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "relu",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]


# --- Arithmetic ---------------------------------------------------------------------------------------------


def add(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` + `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.add(tensor.tensor([1, 2]), 3).tolist()
    [4, 5]
    """
    return table.add(x1, x2) if out is None else run_op_into(table.add, (x1, x2), out)


def subtract(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` - `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.subtract(tensor.tensor([1, 2]), 1).tolist()
    [0, 1]
    """
    return table.subtract(x1, x2) if out is None else run_op_into(table.subtract, (x1, x2), out)


def divide(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` / `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.divide(tensor.tensor([1.0, 2.0]), 2).tolist()
    [0.5, 1.0]
    """
    return table.divide(x1, x2) if out is None else run_op_into(table.divide, (x1, x2), out)


def multiply(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` * `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.multiply(tensor.tensor([1, 2]), 3).tolist()
    [3, 6]
    """
    return table.multiply(x1, x2) if out is None else run_op_into(table.multiply, (x1, x2), out)


def floor_divide(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the quotient rounded down; its gradient is 0.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.floor_divide(tensor.tensor([5, -5]), 2).tolist()
    [2, -3]
    """
    return table.floor_divide(x1, x2) if out is None else run_op_into(table.floor_divide, (x1, x2), out)


def remainder(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the remainder, with the sign of `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.remainder(tensor.tensor([5, -5]), 3).tolist()
    [2, 1]
    """
    return table.remainder(x1, x2) if out is None else run_op_into(table.remainder, (x1, x2), out)


def pow(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` to the power `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.pow(tensor.tensor([2.0, 3.0]), 2).tolist()
    [4.0, 9.0]
    """
    return table.pow(x1, x2) if out is None else run_op_into(table.pow, (x1, x2), out)


def maximum(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the larger of each pair.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.maximum(tensor.tensor([1, 5]), 3).tolist()
    [3, 5]
    """
    return table.maximum(x1, x2) if out is None else run_op_into(table.maximum, (x1, x2), out)


def minimum(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the smaller of each pair.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.minimum(tensor.tensor([1, 5]), 3).tolist()
    [1, 3]
    """
    return table.minimum(x1, x2) if out is None else run_op_into(table.minimum, (x1, x2), out)


def hypot(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return sqrt(x1**2 + x2**2).

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.hypot(tensor.tensor([3.0]), 4.0).tolist()
    [5.0]
    """
    return table.hypot(x1, x2) if out is None else run_op_into(table.hypot, (x1, x2), out)


def atan2(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the angle of the point (x2, x1), in radians.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.atan2(tensor.tensor([0.0]), 1.0).tolist()
    [0.0]
    """
    return table.atan2(x1, x2) if out is None else run_op_into(table.atan2, (x1, x2), out)


def logaddexp(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return log(exp(x1) + exp(x2)).

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.logaddexp(tensor.tensor([1000.0]), 0.0).tolist()
    [1000.0]
    """
    return table.logaddexp(x1, x2) if out is None else run_op_into(table.logaddexp, (x1, x2), out)


def copysign(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` with the sign of `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.copysign(tensor.tensor([1.0]), -2.0).tolist()
    [-1.0]
    """
    return table.copysign(x1, x2) if out is None else run_op_into(table.copysign, (x1, x2), out)


def nextafter(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the next number after `x1` toward `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.nextafter(tensor.tensor([1.0]), 1.0).tolist()
    [1.0]
    """
    return table.nextafter(x1, x2) if out is None else run_op_into(table.nextafter, (x1, x2), out)


def negative(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return -x.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.negative(tensor.tensor([1, -2])).tolist()
    [-1, 2]
    """
    return table.negative(x) if out is None else run_op_into(table.negative, (x,), out)


def positive(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of `x`.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.positive(tensor.tensor([1, -2])).tolist()
    [1, -2]
    """
    return table.positive(x) if out is None else run_op_into(table.positive, (x,), out)


def abs(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the absolute value, real for complex `x`.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.abs(tensor.tensor([1, -2])).tolist()
    [1, 2]
    """
    return table.abs(x) if out is None else run_op_into(table.abs, (x,), out)


def reciprocal(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return 1 / x.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.reciprocal(tensor.tensor([4.0])).tolist()
    [0.25]
    """
    return table.reciprocal(x) if out is None else run_op_into(table.reciprocal, (x,), out)


def square(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return x * x.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.square(tensor.tensor([3.0])).tolist()
    [9.0]
    """
    return table.square(x) if out is None else run_op_into(table.square, (x,), out)


def sign(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return -1, 0 or 1; x / abs(x) for complex `x`.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.sign(tensor.tensor([2, -3, 0])).tolist()
    [1, -1, 0]
    """
    return table.sign(x) if out is None else run_op_into(table.sign, (x,), out)


def ceil(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x` rounded up.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.ceil(tensor.tensor([1.2, -1.2])).tolist()
    [2.0, -1.0]
    """
    return table.ceil(x) if out is None else run_op_into(table.ceil, (x,), out)


def floor(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x` rounded down.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.floor(tensor.tensor([1.2, -1.2])).tolist()
    [1.0, -2.0]
    """
    return table.floor(x) if out is None else run_op_into(table.floor, (x,), out)


def trunc(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x` rounded toward zero.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.trunc(tensor.tensor([1.2, -1.2])).tolist()
    [1.0, -1.0]
    """
    return table.trunc(x) if out is None else run_op_into(table.trunc, (x,), out)


def round(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x` rounded to the nearest integer, halves to even.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.round(tensor.tensor([0.5, 1.5])).tolist()
    [0.0, 2.0]
    """
    return table.round(x) if out is None else run_op_into(table.round, (x,), out)


# --- Powers, exponentials, logarithms -----------------------------------------------------------------------


def exp(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return e to the power `x`.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.exp(tensor.tensor([0.0])).tolist()
    [1.0]
    """
    return table.exp(x) if out is None else run_op_into(table.exp, (x,), out)


def exp2(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return 2 to the power `x`.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.exp2(tensor.tensor([3.0])).tolist()
    [8.0]
    """
    return table.exp2(x) if out is None else run_op_into(table.exp2, (x,), out)


def expm1(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return exp(x) - 1, precise near 0.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.expm1(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.expm1(x) if out is None else run_op_into(table.expm1, (x,), out)


def log(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the natural logarithm.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.log(tensor.tensor([1.0])).tolist()
    [0.0]
    """
    return table.log(x) if out is None else run_op_into(table.log, (x,), out)


def log1p(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return log(1 + x), precise near 0.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.log1p(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.log1p(x) if out is None else run_op_into(table.log1p, (x,), out)


def log2(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm to base 2.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.log2(tensor.tensor([8.0])).tolist()
    [3.0]
    """
    return table.log2(x) if out is None else run_op_into(table.log2, (x,), out)


def log10(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm to base 10.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.log10(tensor.tensor([1.0])).tolist()
    [0.0]
    """
    return table.log10(x) if out is None else run_op_into(table.log10, (x,), out)


def sqrt(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the square root.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.sqrt(tensor.tensor([9.0])).tolist()
    [3.0]
    """
    return table.sqrt(x) if out is None else run_op_into(table.sqrt, (x,), out)


def rsqrt(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return 1 / sqrt(x).

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.rsqrt(tensor.tensor([4.0])).tolist()
    [0.5]
    """
    return table.rsqrt(x) if out is None else run_op_into(table.rsqrt, (x,), out)


# --- Trigonometry, in radians -------------------------------------------------------------------------------


def sin(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the sine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.sin(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.sin(x) if out is None else run_op_into(table.sin, (x,), out)


def cos(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the cosine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.cos(tensor.tensor([0.0])).tolist()
    [1.0]
    """
    return table.cos(x) if out is None else run_op_into(table.cos, (x,), out)


def tan(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the tangent.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.tan(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.tan(x) if out is None else run_op_into(table.tan, (x,), out)


def asin(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse sine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.asin(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.asin(x) if out is None else run_op_into(table.asin, (x,), out)


def acos(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse cosine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.acos(tensor.tensor([1.0])).tolist()
    [0.0]
    """
    return table.acos(x) if out is None else run_op_into(table.acos, (x,), out)


def atan(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse tangent.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.atan(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.atan(x) if out is None else run_op_into(table.atan, (x,), out)


def sinh(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the hyperbolic sine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.sinh(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.sinh(x) if out is None else run_op_into(table.sinh, (x,), out)


def cosh(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the hyperbolic cosine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.cosh(tensor.tensor([0.0])).tolist()
    [1.0]
    """
    return table.cosh(x) if out is None else run_op_into(table.cosh, (x,), out)


def tanh(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the hyperbolic tangent.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.tanh(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.tanh(x) if out is None else run_op_into(table.tanh, (x,), out)


def asinh(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse hyperbolic sine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.asinh(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.asinh(x) if out is None else run_op_into(table.asinh, (x,), out)


def acosh(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse hyperbolic cosine.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.acosh(tensor.tensor([1.0])).tolist()
    [0.0]
    """
    return table.acosh(x) if out is None else run_op_into(table.acosh, (x,), out)


def atanh(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse hyperbolic tangent.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.atanh(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.atanh(x) if out is None else run_op_into(table.atanh, (x,), out)


# --- Activations and special functions ----------------------------------------------------------------------


def relu(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the larger of `x` and 0.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.relu(tensor.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return table.relu(x) if out is None else run_op_into(table.relu, (x,), out)


def sigmoid(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return 1 / (1 + exp(-x)).

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.sigmoid(tensor.tensor([0.0])).tolist()
    [0.5]
    """
    return table.sigmoid(x) if out is None else run_op_into(table.sigmoid, (x,), out)


def logsigmoid(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return log(sigmoid(x)) without overflow.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.logsigmoid(tensor.tensor([-1000.0])).tolist()
    [-1000.0]
    """
    return table.logsigmoid(x) if out is None else run_op_into(table.logsigmoid, (x,), out)


def erf(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the error function.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.erf(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.erf(x) if out is None else run_op_into(table.erf, (x,), out)


def erfinv(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of the error function.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.erfinv(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return table.erfinv(x) if out is None else run_op_into(table.erfinv, (x,), out)


def erfc(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return 1 - erf(x), precise for large `x`.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.erfc(tensor.tensor([0.0])).tolist()
    [1.0]
    """
    return table.erfc(x) if out is None else run_op_into(table.erfc, (x,), out)


# --- Complex numbers ----------------------------------------------------------------------------------------


def conj(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the complex conjugate, as a copy.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.conj(tensor.tensor([1 + 2j])).tolist()
    [(1-2j)]
    """
    return table.conj(x) if out is None else run_op_into(table.conj, (x,), out)


# --- Comparisons and tests: bool results, no gradients ------------------------------------------------------


def equal(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x1` == `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.equal(tensor.tensor([1, 2]), 2).tolist()
    [False, True]
    """
    return table.equal(x1, x2) if out is None else run_op_into(table.equal, (x1, x2), out)


def not_equal(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x1` != `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.not_equal(tensor.tensor([1, 2]), 2).tolist()
    [True, False]
    """
    return table.not_equal(x1, x2) if out is None else run_op_into(table.not_equal, (x1, x2), out)


def less(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x1` < `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.less(tensor.tensor([1, 2]), 2).tolist()
    [True, False]
    """
    return table.less(x1, x2) if out is None else run_op_into(table.less, (x1, x2), out)


def less_equal(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x1` <= `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.less_equal(tensor.tensor([1, 3]), 2).tolist()
    [True, False]
    """
    return table.less_equal(x1, x2) if out is None else run_op_into(table.less_equal, (x1, x2), out)


def greater(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x1` > `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.greater(tensor.tensor([1, 3]), 2).tolist()
    [False, True]
    """
    return table.greater(x1, x2) if out is None else run_op_into(table.greater, (x1, x2), out)


def greater_equal(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x1` >= `x2`.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.greater_equal(tensor.tensor([1, 2]), 2).tolist()
    [False, True]
    """
    return table.greater_equal(x1, x2) if out is None else run_op_into(table.greater_equal, (x1, x2), out)


def logical_and(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where both are true.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.logical_and(tensor.tensor([1, 0]), True).tolist()
    [True, False]
    """
    return table.logical_and(x1, x2) if out is None else run_op_into(table.logical_and, (x1, x2), out)


def logical_or(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where one or both are true.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.logical_or(tensor.tensor([1, 0]), False).tolist()
    [True, False]
    """
    return table.logical_or(x1, x2) if out is None else run_op_into(table.logical_or, (x1, x2), out)


def logical_xor(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where exactly one is true.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.logical_xor(tensor.tensor([1, 0]), True).tolist()
    [False, True]
    """
    return table.logical_xor(x1, x2) if out is None else run_op_into(table.logical_xor, (x1, x2), out)


def logical_not(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x` is false.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.logical_not(tensor.tensor([1, 0])).tolist()
    [False, True]
    """
    return table.logical_not(x) if out is None else run_op_into(table.logical_not, (x,), out)


def isfinite(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x` is finite.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.isfinite(tensor.tensor([1.0])).tolist()
    [True]
    """
    return table.isfinite(x) if out is None else run_op_into(table.isfinite, (x,), out)


def isinf(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x` is infinite.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.isinf(tensor.tensor([1.0])).tolist()
    [False]
    """
    return table.isinf(x) if out is None else run_op_into(table.isinf, (x,), out)


def isnan(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where `x` is not a number.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.isnan(tensor.tensor([1.0])).tolist()
    [False]
    """
    return table.isnan(x) if out is None else run_op_into(table.isnan, (x,), out)


def signbit(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return where the sign bit is set.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.signbit(tensor.tensor([-1.0, 1.0])).tolist()
    [True, False]
    """
    return table.signbit(x) if out is None else run_op_into(table.signbit, (x,), out)


# --- Bits: integers and bools, no gradients -----------------------------------------------------------------


def bitwise_and(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the bits set in both.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.bitwise_and(tensor.tensor([6]), 3).tolist()
    [2]
    """
    return table.bitwise_and(x1, x2) if out is None else run_op_into(table.bitwise_and, (x1, x2), out)


def bitwise_or(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the bits set in one or both.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.bitwise_or(tensor.tensor([6]), 3).tolist()
    [7]
    """
    return table.bitwise_or(x1, x2) if out is None else run_op_into(table.bitwise_or, (x1, x2), out)


def bitwise_xor(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the bits set in exactly one.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.bitwise_xor(tensor.tensor([6]), 3).tolist()
    [5]
    """
    return table.bitwise_xor(x1, x2) if out is None else run_op_into(table.bitwise_xor, (x1, x2), out)


def bitwise_left_shift(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the bits of `x1` shifted left by `x2` places.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.bitwise_left_shift(tensor.tensor([3]), 2).tolist()
    [12]
    """
    return (
        table.bitwise_left_shift(x1, x2)
        if out is None
        else run_op_into(table.bitwise_left_shift, (x1, x2), out)
    )


def bitwise_right_shift(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the bits of `x1` shifted right by `x2` places.

    Shapes broadcast; `tensor.result_type` names the dtype. With `out`, write the result to that tensor of the
    same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.bitwise_right_shift(tensor.tensor([12]), 2).tolist()
    [3]
    """
    return (
        table.bitwise_right_shift(x1, x2)
        if out is None
        else run_op_into(table.bitwise_right_shift, (x1, x2), out)
    )


def bitwise_invert(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the bits flipped.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.bitwise_invert(tensor.tensor([0, 1])).tolist()
    [-1, -2]
    """
    return table.bitwise_invert(x) if out is None else run_op_into(table.bitwise_invert, (x,), out)


# --- Functions of several ops, and with other arguments -----------------------------------------------------


def clip(
    x: Operand, /, min: Operand | None = None, max: Operand | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return `x` with each element clamped to the range from `min` to `max`. None means no bound.

    Bounds broadcast. If min > max, the result is `max`. The gradient goes to `x` within the bounds, including
    the bounds themselves, and to the bound elsewhere. With `out`, write the result to that tensor of the same
    shape. No gradient can be recorded then.

    Examples
    --------
    >>> import tensor
    >>> tensor.clip(tensor.tensor([1.0, 5.0, 9.0]), 2.0, 6.0).tolist()
    [2.0, 5.0, 6.0]
    """
    if min is None and max is None:
        return positive(x, out=out)
    result = apply_into(RULES["clip"], _clip, (x, min, max))
    return result if out is None else copy_out("clip", (x, min, max), result, out)


def _clip(x: Any, low: Any, high: Any, out: Array | None) -> Any:
    # Apply the upper bound last, as np.clip does. np.clip takes three times as long for small arrays.
    if low is None:
        return _bounded(np.minimum, x, high, out)
    raised = _bounded(np.maximum, x, low, out)
    return raised if high is None else _bounded(np.minimum, raised, high, raised)


def _bounded(ufunc: np.ufunc, x: Any, bound: Any, out: Any) -> Any:
    """Return ``ufunc(x, bound)``, in `out` if it has the shape and dtype of the result."""
    x, bound = promoted((x, bound))
    if type(out) is not np.ndarray:
        return ufunc(x, bound)
    is_plain = out is x and is_floating(out.dtype) and type(bound) in (int, float)
    if not is_plain and not is_place_of(ufunc, x, bound, out):
        return ufunc(x, bound)
    return compute_into(ufunc, (x, bound), out)


def where(condition: Operand, x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` where `condition` is true, and `x2` elsewhere. The three shapes broadcast.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Raises
    ------
    TypeError
        If `condition` is not bool.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.tensor([1.0, -2.0])
    >>> tensor.where(x > 0, x, 0.0).tolist()
    [1.0, 0.0]
    """
    result = apply_into(RULES["where"], _where, (condition, x1, x2))
    return result if out is None else copy_out("where", (condition, x1, x2), result, out)


def _where(condition: Any, x1: Any, x2: Any, out: Array | None) -> Any:
    if np.asarray(condition).dtype.kind != "b":
        raise TypeError("the condition must be bool: write x != 0, or x > 0")
    if not isinstance(x1, np.ndarray) and not isinstance(x2, np.ndarray):
        x1 = as_data(x1, None)
    x1, x2 = promoted((x1, x2))
    # np.where wraps a number that does not fit the dtype of the other operand. np.asarray raises an error.
    dtype = np.result_type(x1, x2)
    if out is not None and dtype == out.dtype and (out is x1 or out is x2):
        if out is x1:
            np.copyto(out, np.asarray(x2, dtype), where=np.logical_not(condition))
        else:
            np.copyto(out, np.asarray(x1, dtype), where=condition)
        return out
    return place_where(np.asarray(condition), np.asarray(x1, dtype), np.asarray(x2, dtype))


def lerp(start: Operand, end: Operand, weight: Operand, /) -> Tensor:
    """Return start + weight * (end - start).

    Examples
    --------
    >>> import tensor
    >>> tensor.lerp(tensor.tensor([0.0]), tensor.tensor([10.0]), 0.5).tolist()
    [5.0]
    """
    return apply_into(RULES["lerp"], _lerp, (start, end, weight))


def _lerp(start: Any, end: Any, weight: Any, out: Array | None) -> Any:
    return with_numbers(_lerp_of, *promoted((start, end, weight)), out)


def _lerp_of(a: Any, b: Any, w: Any, out: Array | None) -> Any:
    step = w * (b - a)
    return np.add(a, step, out=out if is_place_of(np.add, a, step, out) else None)


def isclose(
    x1: Operand, x2: Operand, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return where abs(x1 - x2) <= atol + rtol * abs(x2).

    nan is not close to any value. With `equal_nan` it is close to nan.

    Examples
    --------
    >>> import tensor
    >>> tensor.isclose(tensor.tensor([1.0, 1.1]), 1.000001).tolist()
    [True, False]
    """
    if not (rtol >= 0 and atol >= 0):
        raise InvalidArgumentError(f"isclose: rtol and atol must be at least 0, not {rtol} and {atol}")

    def kernel(a: Any, b: Any) -> Any:
        # np.isclose compares as float64, which rounds integers above 2**53.
        if rtol == 0 and atol == 0 and np.result_type(a, b).kind in "iu":
            return np.equal(a, b)
        return np.isclose(a, b, rtol, atol, equal_nan)

    return apply(RULES["isclose"], kernel, (x1, x2))


def allclose(
    x1: Operand, x2: Operand, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Return whether ``isclose`` is true for all elements.

    Examples
    --------
    >>> import tensor
    >>> tensor.allclose(tensor.ones((2,)), 1.0)
    True
    """
    return bool(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan).all())
