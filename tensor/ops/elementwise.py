"""The table of elementwise functions, with the names of the array API standard and a few of PyTorch's.

An entry defines a function and its method. Many entries have a second line for the in-place method. To add a
function, write its entry in the class ``Elementwise`` under the name of the method, and assign the function
to its name below the class. The namespace `tensor` exports that name. The derivative is in
``tensor/tape/rules/elementwise.py``. ``Final`` lets type checkers infer the types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensor._dtypes import is_floating
from tensor._errors import InvalidArgumentError
from tensor._examples import example
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
from tensor.ops.table import augmented, binary, binary_in_place, unary, unary_in_place
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._dtypes import Array
    from tensor._tensor import Tensor


def _write_power(x1: Array, x2: Any) -> None:
    if x1.dtype.kind in "iu" and np.asarray(x2).dtype.kind in "iu" and np.any(x2 < 0):
        # NumPy would raise after it has written some elements.
        raise InvalidArgumentError("Integers to negative integer powers are not allowed.")
    power(x1, x2, x1)


def _write_floor_divide(x1: Array, x2: Any) -> None:
    special_cases.floor_divide(x1, x2, x1)


def _write_abs(x: Array) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(
            f"abs_: absolute values are real, but the tensor is {x.dtype}. Write x = x.abs() instead"
        )
    return np.abs(x)


class Elementwise(TensorCore):
    """Elementwise functions as methods, with PyTorch's names. A final underscore marks in-place methods."""

    __slots__ = ()

    # Entries that begin with an underscore have no method, or one with more arguments
    # (`tensor/ops/methods.py`).

    # Arithmetic

    _add: Final = binary("add", np.add, "`x1` + `x2`.", "[1, 2]", "3", "[4, 5]")
    _add_: Final = binary_in_place("add")
    _subtract: Final = binary("subtract", np.subtract, "`x1` - `x2`.", "[1, 2]", "1", "[0, 1]")
    _subtract_: Final = binary_in_place("subtract")
    _divide: Final = binary("divide", np.divide, "`x1` / `x2`.", "[1.0, 2.0]", "2", "[0.5, 1.0]")
    _divide_: Final = binary_in_place("divide")
    multiply: Final = binary("multiply", np.multiply, "`x1` * `x2`.", "[1, 2]", "3", "[3, 6]")
    multiply_: Final = binary_in_place("multiply")
    floor_divide: Final = binary(
        "floor_divide",
        special_cases.floor_divide,
        "the quotient rounded down; its gradient is 0.",
        "[5, -5]",
        "2",
        "[2, -3]",
    )
    floor_divide_: Final = binary_in_place("floor_divide", _write_floor_divide)
    remainder: Final = binary(
        "remainder", np.remainder, "the remainder, of the sign of `x2`.", "[5, -5]", "3", "[2, 1]"
    )
    remainder_: Final = binary_in_place("remainder")
    pow: Final = binary("pow", power, "`x1` to the power `x2`.", "[2.0, 3.0]", "2", "[4.0, 9.0]")
    pow_: Final = binary_in_place("pow", _write_power)
    maximum: Final = binary("maximum", np.maximum, "the larger of each pair.", "[1, 5]", "3", "[3, 5]")
    minimum: Final = binary("minimum", np.minimum, "the smaller of each pair.", "[1, 5]", "3", "[1, 3]")
    hypot: Final = binary("hypot", np.hypot, "sqrt(x1**2 + x2**2).", "[3.0]", "4.0", "[5.0]")
    hypot_: Final = binary_in_place("hypot")
    atan2: Final = binary(
        "atan2", np.arctan2, "the angle of the point (x2, x1), in radians.", "[0.0]", "1.0", "[0.0]"
    )
    atan2_: Final = binary_in_place("atan2")
    logaddexp: Final = binary(
        "logaddexp", np.logaddexp, "log(exp(x1) + exp(x2)).", "[1000.0]", "0.0", "[1000.0]"
    )
    copysign: Final = binary(
        "copysign", np.copysign, "`x1` with the sign of `x2`.", "[1.0]", "-2.0", "[-1.0]"
    )
    copysign_: Final = binary_in_place("copysign")
    nextafter: Final = binary(
        "nextafter", np.nextafter, "the next number after `x1` toward `x2`.", "[1.0]", "1.0", "[1.0]"
    )

    negative: Final = unary("negative", np.negative, "-x.", "[1, -2]", "[-1, 2]")
    negative_: Final = unary_in_place("negative")
    positive: Final = unary("positive", np.positive, "a copy of `x`.", "[1, -2]", "[1, -2]")
    abs: Final = unary("abs", np.abs, "the absolute value, real for complex `x`.", "[1, -2]", "[1, 2]")
    abs_: Final = unary_in_place("abs", _write_abs)
    reciprocal: Final = unary("reciprocal", np.reciprocal, "1 / x.", "[4.0]", "[0.25]")
    reciprocal_: Final = unary_in_place("reciprocal")
    square: Final = unary("square", np.square, "x * x.", "[3.0]", "[9.0]")
    square_: Final = unary_in_place("square")
    sign: Final = unary(
        "sign", np.sign, "-1, 0 or 1; x / abs(x) for complex `x`.", "[2, -3, 0]", "[1, -1, 0]"
    )
    sign_: Final = unary_in_place("sign")
    ceil: Final = unary("ceil", np.ceil, "`x` rounded up.", "[1.2, -1.2]", "[2.0, -1.0]")
    ceil_: Final = unary_in_place("ceil")
    floor: Final = unary("floor", np.floor, "`x` rounded down.", "[1.2, -1.2]", "[1.0, -2.0]")
    floor_: Final = unary_in_place("floor")
    trunc: Final = unary("trunc", np.trunc, "`x` rounded toward zero.", "[1.2, -1.2]", "[1.0, -1.0]")
    trunc_: Final = unary_in_place("trunc")
    _round: Final = unary(
        "round", np.round, "`x` rounded to the nearest integer, halves to even.", "[0.5, 1.5]", "[0.0, 2.0]"
    )
    _round_: Final = unary_in_place("round")

    # Powers, exponentials, logarithms

    exp: Final = unary("exp", np.exp, "e to the power `x`.", "[0.0]", "[1.0]")
    exp_: Final = unary_in_place("exp")
    exp2: Final = unary("exp2", np.exp2, "2 to the power `x`.", "[3.0]", "[8.0]")
    exp2_: Final = unary_in_place("exp2")
    expm1: Final = unary("expm1", special_cases.expm1, "exp(x) - 1, precise near 0.", "[0.0]", "[0.0]")
    expm1_: Final = unary_in_place("expm1")
    log: Final = unary("log", np.log, "the natural logarithm.", "[1.0]", "[0.0]")
    log_: Final = unary_in_place("log")
    log1p: Final = unary("log1p", np.log1p, "log(1 + x), precise near 0.", "[0.0]", "[0.0]")
    log1p_: Final = unary_in_place("log1p")
    log2: Final = unary("log2", np.log2, "the logarithm to base 2.", "[8.0]", "[3.0]")
    log2_: Final = unary_in_place("log2")
    log10: Final = unary("log10", np.log10, "the logarithm to base 10.", "[1.0]", "[0.0]")
    log10_: Final = unary_in_place("log10")
    sqrt: Final = unary("sqrt", np.sqrt, "the square root.", "[9.0]", "[3.0]")
    sqrt_: Final = unary_in_place("sqrt")
    rsqrt: Final = unary("rsqrt", arithmetic.reciprocal_root, "1 / sqrt(x).", "[4.0]", "[0.5]")
    rsqrt_: Final = unary_in_place("rsqrt")

    # Trigonometry, in radians

    sin: Final = unary("sin", np.sin, "the sine.", "[0.0]", "[0.0]")
    sin_: Final = unary_in_place("sin")
    cos: Final = unary("cos", np.cos, "the cosine.", "[0.0]", "[1.0]")
    cos_: Final = unary_in_place("cos")
    tan: Final = unary("tan", np.tan, "the tangent.", "[0.0]", "[0.0]")
    tan_: Final = unary_in_place("tan")
    asin: Final = unary("asin", np.arcsin, "the inverse sine.", "[0.0]", "[0.0]")
    asin_: Final = unary_in_place("asin")
    acos: Final = unary("acos", np.arccos, "the inverse cosine.", "[1.0]", "[0.0]")
    acos_: Final = unary_in_place("acos")
    atan: Final = unary("atan", np.arctan, "the inverse tangent.", "[0.0]", "[0.0]")
    atan_: Final = unary_in_place("atan")
    sinh: Final = unary("sinh", np.sinh, "the hyperbolic sine.", "[0.0]", "[0.0]")
    sinh_: Final = unary_in_place("sinh")
    cosh: Final = unary("cosh", np.cosh, "the hyperbolic cosine.", "[0.0]", "[1.0]")
    cosh_: Final = unary_in_place("cosh")
    tanh: Final = unary("tanh", special_cases.tanh, "the hyperbolic tangent.", "[0.0]", "[0.0]")
    tanh_: Final = unary_in_place("tanh", np.tanh)
    asinh: Final = unary("asinh", np.arcsinh, "the inverse hyperbolic sine.", "[0.0]", "[0.0]")
    asinh_: Final = unary_in_place("asinh")
    acosh: Final = unary("acosh", np.arccosh, "the inverse hyperbolic cosine.", "[1.0]", "[0.0]")
    acosh_: Final = unary_in_place("acosh")
    atanh: Final = unary("atanh", np.arctanh, "the inverse hyperbolic tangent.", "[0.0]", "[0.0]")
    atanh_: Final = unary_in_place("atanh")

    # Activations and special functions

    relu: Final = unary("relu", special.relu_of, "the larger of `x` and 0.", "[-1.0, 2.0]", "[0.0, 2.0]")
    relu_: Final = unary_in_place("relu")
    sigmoid: Final = unary("sigmoid", special.sigmoid, "1 / (1 + exp(-x)).", "[0.0]", "[0.5]")
    sigmoid_: Final = unary_in_place("sigmoid")
    _logsigmoid: Final = unary(
        "logsigmoid", special.logsigmoid, "log(sigmoid(x)) without overflow.", "[-1000.0]", "[-1000.0]"
    )
    erf: Final = unary("erf", special.erf, "the error function.", "[0.0]", "[0.0]")
    erf_: Final = unary_in_place("erf")
    erfinv: Final = unary("erfinv", special.erfinv, "the inverse of the error function.", "[0.0]", "[0.0]")
    erfinv_: Final = unary_in_place("erfinv")
    erfc: Final = unary("erfc", special.erfc, "1 - erf(x), precise for large `x`.", "[0.0]", "[1.0]")
    erfc_: Final = unary_in_place("erfc")

    # Complex numbers

    conj: Final = unary(
        "conj", special_cases.conjugate, "the complex conjugate, as a copy.", "[1 + 2j]", "[(1-2j)]"
    )

    # Comparisons and tests: bool results, no gradients

    eq: Final = binary("equal", np.equal, "where `x1` == `x2`.", "[1, 2]", "2", "[False, True]")
    ne: Final = binary("not_equal", np.not_equal, "where `x1` != `x2`.", "[1, 2]", "2", "[True, False]")
    lt: Final = binary("less", np.less, "where `x1` < `x2`.", "[1, 2]", "2", "[True, False]")
    le: Final = binary("less_equal", np.less_equal, "where `x1` <= `x2`.", "[1, 3]", "2", "[True, False]")
    gt: Final = binary("greater", np.greater, "where `x1` > `x2`.", "[1, 3]", "2", "[False, True]")
    ge: Final = binary(
        "greater_equal", np.greater_equal, "where `x1` >= `x2`.", "[1, 2]", "2", "[False, True]"
    )
    logical_and: Final = binary(
        "logical_and", np.logical_and, "where both are true.", "[1, 0]", "True", "[True, False]"
    )
    logical_or: Final = binary(
        "logical_or", np.logical_or, "where one is true.", "[1, 0]", "False", "[True, False]"
    )
    logical_xor: Final = binary(
        "logical_xor", np.logical_xor, "where just one is true.", "[1, 0]", "True", "[False, True]"
    )
    logical_not: Final = unary(
        "logical_not", np.logical_not, "where `x` is false.", "[1, 0]", "[False, True]"
    )
    isfinite: Final = unary("isfinite", np.isfinite, "where `x` is finite.", "[1.0]", "[True]")
    isinf: Final = unary("isinf", np.isinf, "where `x` is infinite.", "[1.0]", "[False]")
    isnan: Final = unary("isnan", np.isnan, "where `x` is not a number.", "[1.0]", "[False]")
    signbit: Final = unary(
        "signbit", np.signbit, "where the sign bit is set.", "[-1.0, 1.0]", "[True, False]"
    )

    # Bits: integers and bools, no gradients

    bitwise_and: Final = binary("bitwise_and", np.bitwise_and, "the bits set in both.", "[6]", "3", "[2]")
    bitwise_and_: Final = binary_in_place("bitwise_and")
    bitwise_or: Final = binary("bitwise_or", np.bitwise_or, "the bits set in one or both.", "[6]", "3", "[7]")
    bitwise_or_: Final = binary_in_place("bitwise_or")
    bitwise_xor: Final = binary("bitwise_xor", np.bitwise_xor, "the bits set in just one.", "[6]", "3", "[5]")
    bitwise_xor_: Final = binary_in_place("bitwise_xor")
    bitwise_left_shift: Final = binary(
        "bitwise_left_shift",
        np.left_shift,
        "the bits of `x1` shifted left by `x2` places.",
        "[3]",
        "2",
        "[12]",
    )
    bitwise_left_shift_: Final = binary_in_place("bitwise_left_shift")
    bitwise_right_shift: Final = binary(
        "bitwise_right_shift",
        np.right_shift,
        "the bits of `x1` shifted right by `x2` places.",
        "[12]",
        "2",
        "[3]",
    )
    bitwise_right_shift_: Final = binary_in_place("bitwise_right_shift")
    bitwise_not: Final = unary("bitwise_invert", np.invert, "the bits flipped.", "[0, 1]", "[-1, -2]")

    # Aliases, as in PyTorch

    mul: Final = multiply
    mul_: Final = multiply_
    neg: Final = negative
    neg_: Final = negative_
    absolute: Final = abs
    absolute_: Final = abs_
    sgn: Final = sign
    sgn_: Final = sign_
    fix: Final = trunc
    fix_: Final = trunc_
    arcsin: Final = asin
    arcsin_: Final = asin_
    arccos: Final = acos
    arccos_: Final = acos_
    arctan: Final = atan
    arctan_: Final = atan_
    arcsinh: Final = asinh
    arcsinh_: Final = asinh_
    arccosh: Final = acosh
    arccosh_: Final = acosh_
    arctanh: Final = atanh
    arctanh_: Final = atanh_
    arctan2: Final = atan2
    arctan2_: Final = atan2_
    not_equal: Final = ne
    less: Final = lt
    less_equal: Final = le
    greater: Final = gt
    greater_equal: Final = ge

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


# The functions of the namespace.

add: Final = Elementwise._add
subtract: Final = Elementwise._subtract
divide: Final = Elementwise._divide
multiply: Final = Elementwise.multiply
floor_divide: Final = Elementwise.floor_divide
remainder: Final = Elementwise.remainder
pow: Final = Elementwise.pow
maximum: Final = Elementwise.maximum
minimum: Final = Elementwise.minimum
hypot: Final = Elementwise.hypot
atan2: Final = Elementwise.atan2
logaddexp: Final = Elementwise.logaddexp
copysign: Final = Elementwise.copysign
nextafter: Final = Elementwise.nextafter
negative: Final = Elementwise.negative
positive: Final = Elementwise.positive
abs: Final = Elementwise.abs
reciprocal: Final = Elementwise.reciprocal
square: Final = Elementwise.square
sign: Final = Elementwise.sign
ceil: Final = Elementwise.ceil
floor: Final = Elementwise.floor
trunc: Final = Elementwise.trunc
round: Final = Elementwise._round
exp: Final = Elementwise.exp
exp2: Final = Elementwise.exp2
expm1: Final = Elementwise.expm1
log: Final = Elementwise.log
log1p: Final = Elementwise.log1p
log2: Final = Elementwise.log2
log10: Final = Elementwise.log10
sqrt: Final = Elementwise.sqrt
rsqrt: Final = Elementwise.rsqrt
sin: Final = Elementwise.sin
cos: Final = Elementwise.cos
tan: Final = Elementwise.tan
asin: Final = Elementwise.asin
acos: Final = Elementwise.acos
atan: Final = Elementwise.atan
sinh: Final = Elementwise.sinh
cosh: Final = Elementwise.cosh
tanh: Final = Elementwise.tanh
asinh: Final = Elementwise.asinh
acosh: Final = Elementwise.acosh
atanh: Final = Elementwise.atanh
relu: Final = Elementwise.relu
sigmoid: Final = Elementwise.sigmoid
logsigmoid: Final = Elementwise._logsigmoid
erf: Final = Elementwise.erf
erfc: Final = Elementwise.erfc
erfinv: Final = Elementwise.erfinv
conj: Final = Elementwise.conj
equal: Final = Elementwise.eq
not_equal: Final = Elementwise.ne
less: Final = Elementwise.lt
less_equal: Final = Elementwise.le
greater: Final = Elementwise.gt
greater_equal: Final = Elementwise.ge
logical_and: Final = Elementwise.logical_and
logical_or: Final = Elementwise.logical_or
logical_xor: Final = Elementwise.logical_xor
logical_not: Final = Elementwise.logical_not
isfinite: Final = Elementwise.isfinite
isinf: Final = Elementwise.isinf
isnan: Final = Elementwise.isnan
signbit: Final = Elementwise.signbit
bitwise_and: Final = Elementwise.bitwise_and
bitwise_or: Final = Elementwise.bitwise_or
bitwise_xor: Final = Elementwise.bitwise_xor
bitwise_left_shift: Final = Elementwise.bitwise_left_shift
bitwise_right_shift: Final = Elementwise.bitwise_right_shift
bitwise_invert: Final = Elementwise.bitwise_not

function_of[np.power] = pow
function_of[np.floor_divide] = floor_divide
function_of[np.expm1] = expm1
function_of[np.conjugate] = conj
function_of[np.tanh] = tanh


@example("tensor.clip(tensor.tensor([1.0, 5.0, 9.0]), 2.0, 6.0).tolist()", [2.0, 5.0, 6.0])
def clip(
    x: Operand, /, min: Operand | None = None, max: Operand | None = None, *, out: Tensor | None = None
) -> Tensor:
    """Return `x` with each element clamped to the range from `min` to `max`. None means no bound.

    Bounds broadcast. If min > max, the result is `max`. The gradient goes to `x` within the bounds, including
    the bounds themselves, and to the bound elsewhere. With `out`, the result is written to that tensor of the
    result's shape, and no gradient is recorded.
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


@example("x = tensor.tensor([1.0, -2.0]); tensor.where(x > 0, x, 0.0).tolist()", [1.0, 0.0])
def where(condition: Operand, x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return `x1` where `condition` is true, and `x2` elsewhere. The three shapes broadcast.

    With `out`, the result is written to that tensor of the result's shape, and no gradient is recorded.

    Raises
    ------
    TypeError
        If `condition` is not bool.
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


@example("tensor.lerp(tensor.tensor([0.0]), tensor.tensor([10.0]), 0.5).tolist()", [5.0])
def lerp(start: Operand, end: Operand, weight: Operand, /) -> Tensor:
    """Return start + weight * (end - start)."""
    return apply_into(RULES["lerp"], _lerp, (start, end, weight))


def _lerp(start: Any, end: Any, weight: Any, out: Array | None) -> Any:
    a, b, w = promoted((start, end, weight))
    step = w * (b - a)
    return np.add(a, step, out=out if is_place_of(np.add, a, step, out) else None)


@example("tensor.isclose(tensor.tensor([1.0, 1.1]), 1.000001).tolist()", [True, False])
def isclose(
    x1: Operand, x2: Operand, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Tensor:
    """Return where abs(x1 - x2) <= atol + rtol * abs(x2).

    nan is not close to any value. With `equal_nan` it is close to nan.
    """
    if not (rtol >= 0 and atol >= 0):
        raise InvalidArgumentError(f"isclose: rtol and atol are at least 0, not {rtol} and {atol}")
    return apply(RULES["isclose"], lambda a, b: np.isclose(a, b, rtol, atol, equal_nan), (x1, x2))


@example("tensor.allclose(tensor.ones((2,)), 1.0)", True)
def allclose(
    x1: Operand, x2: Operand, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """Return whether ``isclose`` is true for all elements."""
    return bool(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan).all())


__all__ = [
    name
    for name, value in globals().items()
    if getattr(value, "__module__", "") == __name__ and not (name.startswith("_") or isinstance(value, type))
]
