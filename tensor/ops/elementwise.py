"""Elementwise functions, as the array API standard names them (and a few of PyTorch's): a table.

An entry makes a function, its method and its form in place. To add one, write three lines: the entry in the
class ``Elementwise``, under the name of the method; the name of the function, below the class; and the same
in ``__all__``, which the namespace `tensor` hands on. The derivative stands in
``tensor/tape/rules/elementwise.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore
from tensor.kernels import arithmetic, special, special_cases
from tensor.kernels.context import run_kernel
from tensor.kernels.powers import power
from tensor.kernels.selecting import where as place_where
from tensor.ops.data import as_data
from tensor.ops.dispatch import apply, as_array, function_of, operand
from tensor.ops.messages import Operand, explain, foreign
from tensor.ops.outputs import copy_out
from tensor.ops.promotion import promoted
from tensor.ops.table import augmented, binary, binary_function, unary, unary_function
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._dtypes import Array
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


def _write_power(x1: Array, x2: Any) -> None:
    if x1.dtype.kind in "iu" and np.asarray(x2).dtype.kind in "iu" and np.any(x2 < 0):
        # NumPy would find that half way.
        raise InvalidArgumentError("Integers to negative integer powers are not allowed.")
    power(x1, x2, x1)


def _write_floor_divide(x1: Array, x2: Any) -> None:
    special_cases.floor_divide(x1, x2, x1)


def _write_abs(x: Array) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(
            f"abs_: absolute values are real, and the tensor is {x.dtype}. Write x = x.abs() instead"
        )
    return np.abs(x)


class Elementwise(TensorCore):
    """Elementwise functions as methods, with PyTorch's names; with an underscore at the end, in place."""

    __slots__ = ()

    # With an underscore at the start: no method, or one with more arguments (`tensor/ops/methods.py`).

    # Arithmetic

    _add, _add_ = binary("add", np.add, "`x1` + `x2`.", "[1, 2]", "3", "[4, 5]")
    _subtract, _subtract_ = binary("subtract", np.subtract, "`x1` - `x2`.", "[1, 2]", "1", "[0, 1]")
    _divide, _divide_ = binary("divide", np.divide, "`x1` / `x2`.", "[1.0, 2.0]", "2", "[0.5, 1.0]")
    multiply, multiply_ = binary("multiply", np.multiply, "`x1` * `x2`.", "[1, 2]", "3", "[3, 6]")
    floor_divide, floor_divide_ = binary(
        "floor_divide",
        special_cases.floor_divide,
        "the quotient rounded down; its gradient is 0.",
        "[5, -5]",
        "2",
        "[2, -3]",
        kernel_in_place=_write_floor_divide,
    )
    remainder, remainder_ = binary(
        "remainder", np.remainder, "the remainder, of the sign of `x2`.", "[5, -5]", "3", "[2, 1]"
    )
    pow, pow_ = binary(
        "pow",
        power,
        "`x1` to the power `x2`.",
        "[2.0, 3.0]",
        "2",
        "[4.0, 9.0]",
        kernel_in_place=_write_power,
    )
    maximum = binary_function("maximum", np.maximum, "the larger of each pair.", "[1, 5]", "3", "[3, 5]")
    minimum = binary_function("minimum", np.minimum, "the smaller of each pair.", "[1, 5]", "3", "[1, 3]")
    hypot, hypot_ = binary("hypot", np.hypot, "sqrt(x1**2 + x2**2).", "[3.0]", "4.0", "[5.0]")
    atan2, atan2_ = binary(
        "atan2", np.arctan2, "the angle of the point (x2, x1), in radians.", "[0.0]", "1.0", "[0.0]"
    )
    logaddexp = binary_function(
        "logaddexp", np.logaddexp, "log(exp(x1) + exp(x2)).", "[1000.0]", "0.0", "[1000.0]"
    )
    copysign, copysign_ = binary(
        "copysign", np.copysign, "`x1` with the sign of `x2`.", "[1.0]", "-2.0", "[-1.0]"
    )
    nextafter = binary_function(
        "nextafter", np.nextafter, "the next number after `x1` toward `x2`.", "[1.0]", "1.0", "[1.0]"
    )

    negative, negative_ = unary("negative", np.negative, "-x.", "[1, -2]", "[-1, 2]")
    positive = unary_function("positive", np.positive, "a copy of `x`.", "[1, -2]", "[1, -2]")
    abs, abs_ = unary(
        "abs",
        np.abs,
        "the absolute value, real for complex `x`.",
        "[1, -2]",
        "[1, 2]",
        kernel_in_place=_write_abs,
    )
    reciprocal, reciprocal_ = unary("reciprocal", np.reciprocal, "1 / x.", "[4.0]", "[0.25]")
    square, square_ = unary("square", np.square, "x * x.", "[3.0]", "[9.0]")
    sign, sign_ = unary(
        "sign", np.sign, "-1, 0 or 1; x / abs(x) for complex `x`.", "[2, -3, 0]", "[1, -1, 0]"
    )
    ceil, ceil_ = unary("ceil", np.ceil, "`x` rounded up.", "[1.2, -1.2]", "[2.0, -1.0]")
    floor, floor_ = unary("floor", np.floor, "`x` rounded down.", "[1.2, -1.2]", "[1.0, -2.0]")
    trunc, trunc_ = unary("trunc", np.trunc, "`x` rounded toward zero.", "[1.2, -1.2]", "[1.0, -1.0]")
    _round, round_ = unary(
        "round", np.round, "`x` rounded to the nearest integer, halves to even.", "[0.5, 1.5]", "[0.0, 2.0]"
    )

    # Powers, exponentials, logarithms

    exp, exp_ = unary("exp", np.exp, "e to the power `x`.", "[0.0]", "[1.0]")
    exp2, exp2_ = unary("exp2", np.exp2, "2 to the power `x`.", "[3.0]", "[8.0]")
    expm1, expm1_ = unary("expm1", special_cases.expm1, "exp(x) - 1, precise near 0.", "[0.0]", "[0.0]")
    log, log_ = unary("log", np.log, "the natural logarithm.", "[1.0]", "[0.0]")
    log1p, log1p_ = unary("log1p", np.log1p, "log(1 + x), precise near 0.", "[0.0]", "[0.0]")
    log2, log2_ = unary("log2", np.log2, "the logarithm to base 2.", "[8.0]", "[3.0]")
    log10, log10_ = unary("log10", np.log10, "the logarithm to base 10.", "[1.0]", "[0.0]")
    sqrt, sqrt_ = unary("sqrt", np.sqrt, "the square root.", "[9.0]", "[3.0]")
    rsqrt, rsqrt_ = unary("rsqrt", arithmetic.reciprocal_root, "1 / sqrt(x).", "[4.0]", "[0.5]")

    # Trigonometry, in radians

    sin, sin_ = unary("sin", np.sin, "the sine.", "[0.0]", "[0.0]")
    cos, cos_ = unary("cos", np.cos, "the cosine.", "[0.0]", "[1.0]")
    tan, tan_ = unary("tan", np.tan, "the tangent.", "[0.0]", "[0.0]")
    asin, asin_ = unary("asin", np.arcsin, "the inverse sine.", "[0.0]", "[0.0]")
    acos, acos_ = unary("acos", np.arccos, "the inverse cosine.", "[1.0]", "[0.0]")
    atan, atan_ = unary("atan", np.arctan, "the inverse tangent.", "[0.0]", "[0.0]")
    sinh, sinh_ = unary("sinh", np.sinh, "the hyperbolic sine.", "[0.0]", "[0.0]")
    cosh, cosh_ = unary("cosh", np.cosh, "the hyperbolic cosine.", "[0.0]", "[1.0]")
    tanh, tanh_ = unary(
        "tanh", special_cases.tanh, "the hyperbolic tangent.", "[0.0]", "[0.0]", kernel_in_place=np.tanh
    )
    asinh, asinh_ = unary("asinh", np.arcsinh, "the inverse hyperbolic sine.", "[0.0]", "[0.0]")
    acosh, acosh_ = unary("acosh", np.arccosh, "the inverse hyperbolic cosine.", "[1.0]", "[0.0]")
    atanh, atanh_ = unary("atanh", np.arctanh, "the inverse hyperbolic tangent.", "[0.0]", "[0.0]")

    # Activations and special functions

    relu, relu_ = unary("relu", special.relu_of, "the larger of `x` and 0.", "[-1.0, 2.0]", "[0.0, 2.0]")
    sigmoid, sigmoid_ = unary("sigmoid", special.sigmoid, "1 / (1 + exp(-x)).", "[0.0]", "[0.5]")
    _logsigmoid = unary_function(
        "logsigmoid", special.logsigmoid, "log(sigmoid(x)) without overflow.", "[-1000.0]", "[-1000.0]"
    )
    erf, erf_ = unary("erf", special.erf, "the error function.", "[0.0]", "[0.0]")
    erfinv, erfinv_ = unary("erfinv", special.erfinv, "the inverse of the error function.", "[0.0]", "[0.0]")
    erfc, erfc_ = unary("erfc", special.erfc, "1 - erf(x), precise for large `x`.", "[0.0]", "[1.0]")

    # Complex numbers

    conj = unary_function("conj", np.conjugate, "the complex conjugate, as a copy.", "[1 + 2j]", "[(1-2j)]")

    # Comparisons and tests: bool results, no gradients

    eq = binary_function("equal", np.equal, "where `x1` == `x2`.", "[1, 2]", "2", "[False, True]")
    ne = binary_function("not_equal", np.not_equal, "where `x1` != `x2`.", "[1, 2]", "2", "[True, False]")
    lt = binary_function("less", np.less, "where `x1` < `x2`.", "[1, 2]", "2", "[True, False]")
    le = binary_function("less_equal", np.less_equal, "where `x1` <= `x2`.", "[1, 3]", "2", "[True, False]")
    gt = binary_function("greater", np.greater, "where `x1` > `x2`.", "[1, 3]", "2", "[False, True]")
    ge = binary_function(
        "greater_equal", np.greater_equal, "where `x1` >= `x2`.", "[1, 2]", "2", "[False, True]"
    )
    logical_and = binary_function(
        "logical_and", np.logical_and, "where both are true.", "[1, 0]", "True", "[True, False]"
    )
    logical_or = binary_function(
        "logical_or", np.logical_or, "where one is true.", "[1, 0]", "False", "[True, False]"
    )
    logical_xor = binary_function(
        "logical_xor", np.logical_xor, "where just one is true.", "[1, 0]", "True", "[False, True]"
    )
    logical_not = unary_function(
        "logical_not", np.logical_not, "where `x` is false.", "[1, 0]", "[False, True]"
    )
    isfinite = unary_function("isfinite", np.isfinite, "where `x` is finite.", "[1.0]", "[True]")
    isinf = unary_function("isinf", np.isinf, "where `x` is infinite.", "[1.0]", "[False]")
    isnan = unary_function("isnan", np.isnan, "where `x` is not a number.", "[1.0]", "[False]")
    signbit = unary_function(
        "signbit", np.signbit, "where the sign bit is set.", "[-1.0, 1.0]", "[True, False]"
    )

    # Bits: integers and bools, no gradients

    bitwise_and, bitwise_and_ = binary(
        "bitwise_and", np.bitwise_and, "the bits set in both.", "[6]", "3", "[2]"
    )
    bitwise_or, bitwise_or_ = binary(
        "bitwise_or", np.bitwise_or, "the bits set in one or both.", "[6]", "3", "[7]"
    )
    bitwise_xor, bitwise_xor_ = binary(
        "bitwise_xor", np.bitwise_xor, "the bits set in just one.", "[6]", "3", "[5]"
    )
    bitwise_left_shift, bitwise_left_shift_ = binary(
        "bitwise_left_shift",
        np.left_shift,
        "the bits of `x1` shifted left by `x2` places.",
        "[3]",
        "2",
        "[12]",
    )
    bitwise_right_shift, bitwise_right_shift_ = binary(
        "bitwise_right_shift",
        np.right_shift,
        "the bits of `x1` shifted right by `x2` places.",
        "[12]",
        "2",
        "[3]",
    )
    bitwise_not = unary_function("bitwise_invert", np.invert, "the bits flipped.", "[0, 1]", "[-1, -2]")

    # PyTorch's other names for some

    mul, mul_ = multiply, multiply_
    neg, neg_ = negative, negative_
    absolute, absolute_ = abs, abs_
    sgn, sgn_ = sign, sign_
    fix, fix_ = trunc, trunc_
    arcsin, arcsin_ = asin, asin_
    arccos, arccos_ = acos, acos_
    arctan, arctan_ = atan, atan_
    arcsinh, arcsinh_ = asinh, asinh_
    arccosh, arccosh_ = acosh, acosh_
    arctanh, arctanh_ = atanh, atanh_
    arctan2, arctan2_ = atan2, atan2_
    not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge

    # Augmented assignment; the other operators are compiled (`tensor/ops/operators.pyx`).

    __iadd__ = augmented("add")
    __isub__ = augmented("subtract")
    __imul__ = augmented("multiply")
    __itruediv__ = augmented("divide")
    __ifloordiv__ = augmented("floor_divide", kernel_in_place=_write_floor_divide)
    __imod__ = augmented("remainder")
    __ipow__ = augmented("pow", kernel_in_place=_write_power)
    __iand__ = augmented("bitwise_and")
    __ior__ = augmented("bitwise_or")
    __ixor__ = augmented("bitwise_xor")
    __ilshift__ = augmented("bitwise_left_shift")
    __irshift__ = augmented("bitwise_right_shift")


# The functions of the namespace.

add = Elementwise._add
subtract = Elementwise._subtract
divide = Elementwise._divide
multiply = Elementwise.multiply
floor_divide = Elementwise.floor_divide
remainder = Elementwise.remainder
pow = Elementwise.pow
maximum = Elementwise.maximum
minimum = Elementwise.minimum
hypot = Elementwise.hypot
atan2 = Elementwise.atan2
logaddexp = Elementwise.logaddexp
copysign = Elementwise.copysign
nextafter = Elementwise.nextafter
negative = Elementwise.negative
positive = Elementwise.positive
abs = Elementwise.abs
reciprocal = Elementwise.reciprocal
square = Elementwise.square
sign = Elementwise.sign
ceil = Elementwise.ceil
floor = Elementwise.floor
trunc = Elementwise.trunc
round = Elementwise._round
exp = Elementwise.exp
exp2 = Elementwise.exp2
expm1 = Elementwise.expm1
log = Elementwise.log
log1p = Elementwise.log1p
log2 = Elementwise.log2
log10 = Elementwise.log10
sqrt = Elementwise.sqrt
rsqrt = Elementwise.rsqrt
sin = Elementwise.sin
cos = Elementwise.cos
tan = Elementwise.tan
asin = Elementwise.asin
acos = Elementwise.acos
atan = Elementwise.atan
sinh = Elementwise.sinh
cosh = Elementwise.cosh
tanh = Elementwise.tanh
asinh = Elementwise.asinh
acosh = Elementwise.acosh
atanh = Elementwise.atanh
relu = Elementwise.relu
sigmoid = Elementwise.sigmoid
logsigmoid = Elementwise._logsigmoid
erf = Elementwise.erf
erfc = Elementwise.erfc
erfinv = Elementwise.erfinv
conj = Elementwise.conj
equal = Elementwise.eq
not_equal = Elementwise.ne
less = Elementwise.lt
less_equal = Elementwise.le
greater = Elementwise.gt
greater_equal = Elementwise.ge
logical_and = Elementwise.logical_and
logical_or = Elementwise.logical_or
logical_xor = Elementwise.logical_xor
logical_not = Elementwise.logical_not
isfinite = Elementwise.isfinite
isinf = Elementwise.isinf
isnan = Elementwise.isnan
signbit = Elementwise.signbit
bitwise_and = Elementwise.bitwise_and
bitwise_or = Elementwise.bitwise_or
bitwise_xor = Elementwise.bitwise_xor
bitwise_left_shift = Elementwise.bitwise_left_shift
bitwise_right_shift = Elementwise.bitwise_right_shift
bitwise_invert = Elementwise.bitwise_not

function_of[np.power] = pow
function_of[np.floor_divide] = floor_divide
function_of[np.expm1] = expm1
function_of[np.tanh] = tanh


def clip(
    x: Operand, /, min: Operand | None = None, max: Operand | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return `x` with each element raised to `min` and lowered to `max`; None leaves that side open.

    Bounds broadcast; where they cross, `max` is the result. The gradient goes to `x` within the bounds, these
    included, and to the bound elsewhere. With `out` the result is written there, a tensor of its shape;
    without recording gradients.

    Examples
    --------
    >>> import tensor
    >>> tensor.clip(tensor.tensor([1.0, 5.0, 9.0]), 2.0, 6.0).tolist()
    [2.0, 5.0, 6.0]
    """
    given = [None if x is None else _number_or_array("clip", x) for x in (x, min, max)]
    if min is None and max is None:
        return positive(x, out=out)
    try:
        array = as_array(run_kernel(_clip, *given))
    except (TypeError, ValueError, OverflowError) as error:
        raise explain("clip", error, [a for a in given if a is not None]) from None
    result = wrap_recorded(array, record(RULES["clip"], (x, min, max), array, {}))
    return result if out is None else copy_out("clip", (x, min, max), result, out)


def _clip(x: Any, low: Any, high: Any) -> Any:
    # In this order the upper bound wins; np.clip is these two, three times as slow on small arrays.
    raised = x if low is None else np.maximum(*promoted((x, low)))
    return raised if high is None else np.minimum(*promoted((raised, high)))


def _number_or_array(name: str, x: object) -> Any:
    found = operand(x)
    if found is NotImplemented:
        raise foreign(name, x)
    return found


def where(condition: Operand, x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` where `condition` is true and `x2` elsewhere; the three shapes broadcast.

    With `out` the result is written there, a tensor of its shape; without recording gradients.

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
    result = apply(RULES["where"], _where, (condition, x1, x2))
    return result if out is None else copy_out("where", (condition, x1, x2), result, out)


def _where(*operands: Any) -> Any:
    condition, x1, x2 = operands
    if np.asarray(condition).dtype.kind != "b":
        raise TypeError("the condition must be bool: write x != 0, or x > 0")
    if not isinstance(x1, np.ndarray) and not isinstance(x2, np.ndarray):
        x1 = as_data(x1, None)
    x1, x2 = promoted((x1, x2))
    # np.where would wrap a number that its other operand's dtype can't hold.
    dtype = np.result_type(x1, x2)
    return place_where(np.asarray(condition), np.asarray(x1, dtype), np.asarray(x2, dtype))


def lerp(start: Operand, end: Operand, weight: Operand, /) -> Tensor:
    """Return start + weight * (end - start).

    Examples
    --------
    >>> import tensor
    >>> tensor.lerp(tensor.tensor([0.0]), tensor.tensor([10.0]), 0.5).tolist()
    [5.0]
    """
    return apply(RULES["lerp"], _lerp, (start, end, weight))


def _lerp(*operands: Any) -> Any:
    a, b, w = promoted(operands)
    return a + w * (b - a)


def isclose(x1: Operand, x2: Operand, /, *, rtol: float = 1e-5, atol: float = 1e-8) -> Tensor:
    """Return where abs(x1 - x2) <= atol + rtol * abs(x2); not a number is close to nothing.

    Examples
    --------
    >>> import tensor
    >>> tensor.isclose(tensor.tensor([1.0, 1.1]), 1.000001).tolist()
    [True, False]
    """
    return apply(RULES["isclose"], lambda a, b: np.isclose(a, b, rtol=rtol, atol=atol), (x1, x2))


def allclose(x1: Operand, x2: Operand, /, *, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Tell whether ``isclose`` holds everywhere.

    Examples
    --------
    >>> import tensor
    >>> tensor.allclose(tensor.ones((2,)), 1.0)
    True
    """
    return bool(isclose(x1, x2, rtol=rtol, atol=atol).all())
