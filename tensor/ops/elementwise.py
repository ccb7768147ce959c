"""The table of elementwise functions, with the names of the array API standard and a few of PyTorch's.

An entry defines a function; the namespace `tensor` exports it. The lists above the class ``Elementwise`` name
the entries that are methods, and those that have an in-place method too. To add a function, write its entry,
and its name in one of the lists. The derivative is in ``tensor/tape/rules/elementwise.py``. ``Final`` lets
type checkers infer the types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensor._dtypes import Array, is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore
from tensor.kernels import arithmetic, special, special_cases
from tensor.kernels.powers import power
from tensor.kernels.selecting import where as place_where
from tensor.kernels.ufuncs import compute_into, is_place_of
from tensor.ops.data import as_data
from tensor.ops.dispatch import apply, apply_into, function_of
from tensor.ops.messages import Operand
from tensor.ops.outputs import copy_out
from tensor.ops.promotion import promoted
from tensor.ops.table import (
    augmented,
    binary,
    binary_in_place,
    unary,
    unary_in_place,
    with_entries,
)
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def _write_power(x1: Array, x2: Any) -> None:
    if x1.dtype.kind in "iu" and np.asarray(x2).dtype.kind in "iu" and np.any(x2 < 0):
        # NumPy would raise after it has written some elements.
        raise InvalidArgumentError("Integers to negative integer powers are not allowed.")
    compute_into(power, (x1, x2), x1)


def _write_floor_divide(x1: Array, x2: Any) -> None:
    compute_into(special_cases.floor_divide, (x1, x2), x1)


def _write_abs(x: Array) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(
            f"abs_: absolute values are real, but the tensor is {x.dtype}. Write x = x.abs() instead"
        )
    return np.abs(x)


# Arithmetic

add: Final = binary("add", np.add, "`x1` + `x2`.", "[1, 2]", "3", "[4, 5]")
subtract: Final = binary("subtract", np.subtract, "`x1` - `x2`.", "[1, 2]", "1", "[0, 1]")
divide: Final = binary("divide", np.divide, "`x1` / `x2`.", "[1.0, 2.0]", "2", "[0.5, 1.0]")
multiply: Final = binary("multiply", np.multiply, "`x1` * `x2`.", "[1, 2]", "3", "[3, 6]")
floor_divide: Final = binary(
    "floor_divide",
    special_cases.floor_divide,
    "the quotient rounded down; its gradient is 0.",
    "[5, -5]",
    "2",
    "[2, -3]",
)
remainder: Final = binary(
    "remainder", np.remainder, "the remainder, with the sign of `x2`.", "[5, -5]", "3", "[2, 1]"
)
pow: Final = binary("pow", power, "`x1` to the power `x2`.", "[2.0, 3.0]", "2", "[4.0, 9.0]")
maximum: Final = binary("maximum", np.maximum, "the larger of each pair.", "[1, 5]", "3", "[3, 5]")
minimum: Final = binary("minimum", np.minimum, "the smaller of each pair.", "[1, 5]", "3", "[1, 3]")
hypot: Final = binary("hypot", np.hypot, "sqrt(x1**2 + x2**2).", "[3.0]", "4.0", "[5.0]")
atan2: Final = binary(
    "atan2", np.arctan2, "the angle of the point (x2, x1), in radians.", "[0.0]", "1.0", "[0.0]"
)
logaddexp: Final = binary("logaddexp", np.logaddexp, "log(exp(x1) + exp(x2)).", "[1000.0]", "0.0", "[1000.0]")
copysign: Final = binary("copysign", np.copysign, "`x1` with the sign of `x2`.", "[1.0]", "-2.0", "[-1.0]")
nextafter: Final = binary(
    "nextafter", np.nextafter, "the next number after `x1` toward `x2`.", "[1.0]", "1.0", "[1.0]"
)

negative: Final = unary("negative", np.negative, "-x.", "[1, -2]", "[-1, 2]")
positive: Final = unary("positive", np.positive, "a copy of `x`.", "[1, -2]", "[1, -2]")
abs: Final = unary("abs", np.abs, "the absolute value, real for complex `x`.", "[1, -2]", "[1, 2]")
reciprocal: Final = unary("reciprocal", np.reciprocal, "1 / x.", "[4.0]", "[0.25]")
square: Final = unary("square", np.square, "x * x.", "[3.0]", "[9.0]")
sign: Final = unary("sign", np.sign, "-1, 0 or 1; x / abs(x) for complex `x`.", "[2, -3, 0]", "[1, -1, 0]")
ceil: Final = unary("ceil", np.ceil, "`x` rounded up.", "[1.2, -1.2]", "[2.0, -1.0]")
floor: Final = unary("floor", np.floor, "`x` rounded down.", "[1.2, -1.2]", "[1.0, -2.0]")
trunc: Final = unary("trunc", np.trunc, "`x` rounded toward zero.", "[1.2, -1.2]", "[1.0, -1.0]")
round: Final = unary(
    "round", np.round, "`x` rounded to the nearest integer, halves to even.", "[0.5, 1.5]", "[0.0, 2.0]"
)

# Powers, exponentials, logarithms

exp: Final = unary("exp", np.exp, "e to the power `x`.", "[0.0]", "[1.0]")
exp2: Final = unary("exp2", np.exp2, "2 to the power `x`.", "[3.0]", "[8.0]")
expm1: Final = unary("expm1", special_cases.expm1, "exp(x) - 1, precise near 0.", "[0.0]", "[0.0]")
log: Final = unary("log", np.log, "the natural logarithm.", "[1.0]", "[0.0]")
log1p: Final = unary("log1p", np.log1p, "log(1 + x), precise near 0.", "[0.0]", "[0.0]")
log2: Final = unary("log2", np.log2, "the logarithm to base 2.", "[8.0]", "[3.0]")
log10: Final = unary("log10", np.log10, "the logarithm to base 10.", "[1.0]", "[0.0]")
sqrt: Final = unary("sqrt", np.sqrt, "the square root.", "[9.0]", "[3.0]")
rsqrt: Final = unary("rsqrt", arithmetic.reciprocal_root, "1 / sqrt(x).", "[4.0]", "[0.5]")

# Trigonometry, in radians

sin: Final = unary("sin", np.sin, "the sine.", "[0.0]", "[0.0]")
cos: Final = unary("cos", np.cos, "the cosine.", "[0.0]", "[1.0]")
tan: Final = unary("tan", np.tan, "the tangent.", "[0.0]", "[0.0]")
asin: Final = unary("asin", np.arcsin, "the inverse sine.", "[0.0]", "[0.0]")
acos: Final = unary("acos", np.arccos, "the inverse cosine.", "[1.0]", "[0.0]")
atan: Final = unary("atan", np.arctan, "the inverse tangent.", "[0.0]", "[0.0]")
sinh: Final = unary("sinh", np.sinh, "the hyperbolic sine.", "[0.0]", "[0.0]")
cosh: Final = unary("cosh", np.cosh, "the hyperbolic cosine.", "[0.0]", "[1.0]")
tanh: Final = unary("tanh", special_cases.tanh, "the hyperbolic tangent.", "[0.0]", "[0.0]")
asinh: Final = unary("asinh", np.arcsinh, "the inverse hyperbolic sine.", "[0.0]", "[0.0]")
acosh: Final = unary("acosh", np.arccosh, "the inverse hyperbolic cosine.", "[1.0]", "[0.0]")
atanh: Final = unary("atanh", np.arctanh, "the inverse hyperbolic tangent.", "[0.0]", "[0.0]")

# Activations and special functions

relu: Final = unary("relu", special.relu_of, "the larger of `x` and 0.", "[-1.0, 2.0]", "[0.0, 2.0]")
sigmoid: Final = unary("sigmoid", special.sigmoid, "1 / (1 + exp(-x)).", "[0.0]", "[0.5]")
logsigmoid: Final = unary(
    "logsigmoid", special.logsigmoid, "log(sigmoid(x)) without overflow.", "[-1000.0]", "[-1000.0]"
)
erf: Final = unary("erf", special.erf, "the error function.", "[0.0]", "[0.0]")
erfinv: Final = unary("erfinv", special.erfinv, "the inverse of the error function.", "[0.0]", "[0.0]")
erfc: Final = unary("erfc", special.erfc, "1 - erf(x), precise for large `x`.", "[0.0]", "[1.0]")

# Complex numbers

conj: Final = unary(
    "conj", special_cases.conjugate, "the complex conjugate, as a copy.", "[1 + 2j]", "[(1-2j)]"
)

# Comparisons and tests: bool results, no gradients

equal: Final = binary("equal", np.equal, "where `x1` == `x2`.", "[1, 2]", "2", "[False, True]")
not_equal: Final = binary("not_equal", np.not_equal, "where `x1` != `x2`.", "[1, 2]", "2", "[True, False]")
less: Final = binary("less", np.less, "where `x1` < `x2`.", "[1, 2]", "2", "[True, False]")
less_equal: Final = binary("less_equal", np.less_equal, "where `x1` <= `x2`.", "[1, 3]", "2", "[True, False]")
greater: Final = binary("greater", np.greater, "where `x1` > `x2`.", "[1, 3]", "2", "[False, True]")
greater_equal: Final = binary(
    "greater_equal", np.greater_equal, "where `x1` >= `x2`.", "[1, 2]", "2", "[False, True]"
)
logical_and: Final = binary(
    "logical_and", np.logical_and, "where both are true.", "[1, 0]", "True", "[True, False]"
)
logical_or: Final = binary(
    "logical_or", np.logical_or, "where one or both are true.", "[1, 0]", "False", "[True, False]"
)
logical_xor: Final = binary(
    "logical_xor", np.logical_xor, "where exactly one is true.", "[1, 0]", "True", "[False, True]"
)
logical_not: Final = unary("logical_not", np.logical_not, "where `x` is false.", "[1, 0]", "[False, True]")
isfinite: Final = unary("isfinite", np.isfinite, "where `x` is finite.", "[1.0]", "[True]")
isinf: Final = unary("isinf", np.isinf, "where `x` is infinite.", "[1.0]", "[False]")
isnan: Final = unary("isnan", np.isnan, "where `x` is not a number.", "[1.0]", "[False]")
signbit: Final = unary("signbit", np.signbit, "where the sign bit is set.", "[-1.0, 1.0]", "[True, False]")

# Bits: integers and bools, no gradients

bitwise_and: Final = binary("bitwise_and", np.bitwise_and, "the bits set in both.", "[6]", "3", "[2]")
bitwise_or: Final = binary("bitwise_or", np.bitwise_or, "the bits set in one or both.", "[6]", "3", "[7]")
bitwise_xor: Final = binary("bitwise_xor", np.bitwise_xor, "the bits set in exactly one.", "[6]", "3", "[5]")
bitwise_left_shift: Final = binary(
    "bitwise_left_shift",
    np.left_shift,
    "the bits of `x1` shifted left by `x2` places.",
    "[3]",
    "2",
    "[12]",
)
bitwise_right_shift: Final = binary(
    "bitwise_right_shift",
    np.right_shift,
    "the bits of `x1` shifted right by `x2` places.",
    "[12]",
    "2",
    "[3]",
)
bitwise_invert: Final = unary("bitwise_invert", np.invert, "the bits flipped.", "[0, 1]", "[-1, -2]")


# The methods: the names of their entries, or "method=entry".
@with_entries(
    """
    floor_divide pow maximum minimum logaddexp nextafter positive abs tanh conj eq=equal ne=not_equal
    lt=less le=less_equal gt=greater ge=greater_equal logical_and logical_or logical_xor logical_not
    isfinite isinf isnan signbit bitwise_not=bitwise_invert absolute=abs not_equal less less_equal
    greater greater_equal
    """,
    in_place="""
    multiply remainder hypot atan2 copysign negative reciprocal square sign ceil floor trunc exp exp2
    expm1 log log1p log2 log10 sqrt rsqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh relu
    sigmoid erf erfinv erfc bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift
    mul=multiply neg=negative sgn=sign fix=trunc arcsin=asin arccos=acos arctan=atan arcsinh=asinh
    arccosh=acosh arctanh=atanh arctan2=atan2
    """,
)
class Elementwise(TensorCore):
    """Elementwise functions as methods, with PyTorch's names. A final underscore marks in-place methods."""

    __slots__ = ()

    # Entries whose methods have more arguments (`tensor/ops/methods.py`).

    _add_: Final = binary_in_place("add")
    _subtract_: Final = binary_in_place("subtract")
    _divide_: Final = binary_in_place("divide")
    _round_: Final = unary_in_place("round")

    # In-place methods with another kernel.

    floor_divide_: Final = binary_in_place("floor_divide", _write_floor_divide)
    pow_: Final = binary_in_place("pow", _write_power)
    abs_: Final = unary_in_place("abs", _write_abs)
    tanh_: Final = unary_in_place("tanh", np.tanh)
    absolute_: Final = abs_

    # Augmented assignment; the other operators are compiled (`tensor/ops/operators.pyx`).

    __iadd__: Final = augmented("add")
    __isub__: Final = augmented("subtract")
    __imul__: Final = augmented("multiply")
    __itruediv__: Final = augmented("divide")
    __ifloordiv__: Final = augmented("floor_divide", _write_floor_divide)
    __imod__: Final = augmented("remainder")
    __ipow__: Final = augmented("pow", _write_power)
    __iand__: Final = augmented("bitwise_and")
    __ior__: Final = augmented("bitwise_or")
    __ixor__: Final = augmented("bitwise_xor")
    __ilshift__: Final = augmented("bitwise_left_shift")
    __irshift__: Final = augmented("bitwise_right_shift")


function_of[np.power] = pow
function_of[np.floor_divide] = floor_divide
function_of[np.expm1] = expm1
function_of[np.conjugate] = conj
function_of[np.tanh] = tanh


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
    a, b, w = promoted((start, end, weight))
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


__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", "") == __name__ and not (name.startswith("_") or isinstance(value, type))
]
