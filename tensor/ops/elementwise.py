"""Elementwise functions, as the array API standard names them (and a few of PyTorch's)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate

import numpy as np

from tensor.kernels import arithmetic
from tensor.kernels.context import run_kernel
from tensor.kernels.elementwise import BinaryKernel, UnaryKernel
from tensor.kernels.powers import power
from tensor.kernels.selecting import where as place_where
from tensor.kernels.ufuncs import COMPILED
from tensor.ops.data import as_data
from tensor.ops.dispatch import BinaryOp, UnaryOp, apply, as_array, function_of, operand
from tensor.ops.messages import Operand, explain, foreign
from tensor.ops.outputs import copy_out, run_into
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._tensor import Tensor

    # They also take `out`, by name.
    Unary = Callable[Concatenate[Operand, ...], Tensor]
    Binary = Callable[Concatenate[Operand, Operand, ...], Tensor]


# All elementwise ops with one kernel, by name.
OPS: dict[str, UnaryOp | BinaryOp] = {}

_INTO = "With `out` the result is written there, a tensor of its shape; without recording gradients."


def _example(call: str, result: str) -> str:
    return f"\n\nExamples\n--------\n>>> import tensor\n>>> tensor.{call}.tolist()\n{result}\n"


def _unary(
    name: str,
    kernel: Callable[[Any], Any],
    summary: str,
    data: str,
    result: str,
    compiled: UnaryKernel | None = None,
) -> Unary:
    if compiled is None and isinstance(found := COMPILED.get(kernel), UnaryKernel):
        compiled = found
    run = OPS[name] = UnaryOp(RULES[name], kernel, compiled)

    def function(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
        return run(x) if out is None else run_into(name, kernel, (x,), out)

    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, run)
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"{summary}\n\n{_INTO}" + _example(f"{name}(tensor.tensor({data}))", result)
    return function


def _binary(
    name: str, kernel: Callable[[Any, Any], Any], summary: str, x1: str, x2: str, result: str
) -> Binary:
    compiled = COMPILED.get(kernel)
    run = OPS[name] = BinaryOp(RULES[name], kernel, compiled if isinstance(compiled, BinaryKernel) else None)

    def function(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
        return run(x1, x2) if out is None else run_into(name, kernel, (x1, x2), out)

    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, run)
    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = (
        f"{summary}\n\nShapes broadcast; the dtype is NumPy's for the two operands. {_INTO}"
        + _example(f"{name}(tensor.tensor({x1}), {x2})", result)
    )
    return function


# Arithmetic

add = _binary("add", np.add, "Return `x1` + `x2`.", "[1, 2]", "3", "[4, 5]")
subtract = _binary("subtract", np.subtract, "Return `x1` - `x2`.", "[1, 2]", "1", "[0, 1]")
multiply = _binary("multiply", np.multiply, "Return `x1` * `x2`.", "[1, 2]", "3", "[3, 6]")
divide = _binary("divide", np.divide, "Return `x1` / `x2`.", "[1.0, 2.0]", "2", "[0.5, 1.0]")
floor_divide = _binary(
    "floor_divide",
    np.floor_divide,
    "Return the quotient rounded down; its gradient is 0.",
    "[5, -5]",
    "2",
    "[2, -3]",
)
remainder = _binary(
    "remainder", np.remainder, "Return the remainder, of the sign of `x2`.", "[5, -5]", "3", "[2, 1]"
)
pow = _binary("pow", power, "Return `x1` to the power `x2`.", "[2.0, 3.0]", "2", "[4.0, 9.0]")
function_of[np.power] = pow
maximum = _binary("maximum", np.maximum, "Return the larger of each pair.", "[1, 5]", "3", "[3, 5]")
minimum = _binary("minimum", np.minimum, "Return the smaller of each pair.", "[1, 5]", "3", "[1, 3]")
hypot = _binary("hypot", np.hypot, "Return sqrt(x1**2 + x2**2).", "[3.0]", "4.0", "[5.0]")
atan2 = _binary(
    "atan2", np.arctan2, "Return the angle of the point (x2, x1), in radians.", "[0.0]", "1.0", "[0.0]"
)
logaddexp = _binary(
    "logaddexp", np.logaddexp, "Return log(exp(x1) + exp(x2)).", "[1000.0]", "0.0", "[1000.0]"
)
copysign = _binary("copysign", np.copysign, "Return `x1` with the sign of `x2`.", "[1.0]", "-2.0", "[-1.0]")
nextafter = _binary(
    "nextafter", np.nextafter, "Return the next number after `x1` toward `x2`.", "[1.0]", "1.0", "[1.0]"
)

negative = _unary("negative", np.negative, "Return -x.", "[1, -2]", "[-1, 2]")
positive = _unary("positive", np.positive, "Return a copy of `x`.", "[1, -2]", "[1, -2]")
abs = _unary("abs", np.abs, "Return the absolute value, real for complex `x`.", "[1, -2]", "[1, 2]")
reciprocal = _unary("reciprocal", np.reciprocal, "Return 1 / x.", "[4.0]", "[0.25]")
square = _unary("square", np.square, "Return x * x.", "[3.0]", "[9.0]")
sign = _unary("sign", np.sign, "Return -1, 0 or 1; x / abs(x) for complex `x`.", "[2, -3, 0]", "[1, -1, 0]")
ceil = _unary("ceil", np.ceil, "Round up.", "[1.2, -1.2]", "[2.0, -1.0]")
floor = _unary("floor", np.floor, "Round down.", "[1.2, -1.2]", "[1.0, -2.0]")
trunc = _unary("trunc", np.trunc, "Round toward zero.", "[1.2, -1.2]", "[1.0, -1.0]")
round = _unary("round", np.round, "Round to the nearest integer, halves to even.", "[0.5, 1.5]", "[0.0, 2.0]")

# Powers, exponentials, logarithms

exp = _unary("exp", np.exp, "Return e to the power `x`.", "[0.0]", "[1.0]")
exp2 = _unary("exp2", np.exp2, "Return 2 to the power `x`.", "[3.0]", "[8.0]")
expm1 = _unary("expm1", np.expm1, "Return exp(x) - 1, precise near 0.", "[0.0]", "[0.0]")
log = _unary("log", np.log, "Return the natural logarithm.", "[1.0]", "[0.0]")
log1p = _unary("log1p", np.log1p, "Return log(1 + x), precise near 0.", "[0.0]", "[0.0]")
log2 = _unary("log2", np.log2, "Return the logarithm to base 2.", "[8.0]", "[3.0]")
log10 = _unary("log10", np.log10, "Return the logarithm to base 10.", "[1.0]", "[0.0]")
sqrt = _unary("sqrt", np.sqrt, "Return the square root.", "[9.0]", "[3.0]")
rsqrt = _unary("rsqrt", arithmetic.reciprocal_root, "Return 1 / sqrt(x).", "[4.0]", "[0.5]")

# Trigonometry, in radians

sin = _unary("sin", np.sin, "Return the sine.", "[0.0]", "[0.0]")
cos = _unary("cos", np.cos, "Return the cosine.", "[0.0]", "[1.0]")
tan = _unary("tan", np.tan, "Return the tangent.", "[0.0]", "[0.0]")
asin = _unary("asin", np.arcsin, "Return the inverse sine.", "[0.0]", "[0.0]")
acos = _unary("acos", np.arccos, "Return the inverse cosine.", "[1.0]", "[0.0]")
atan = _unary("atan", np.arctan, "Return the inverse tangent.", "[0.0]", "[0.0]")
sinh = _unary("sinh", np.sinh, "Return the hyperbolic sine.", "[0.0]", "[0.0]")
cosh = _unary("cosh", np.cosh, "Return the hyperbolic cosine.", "[0.0]", "[1.0]")
tanh = _unary("tanh", np.tanh, "Return the hyperbolic tangent.", "[0.0]", "[0.0]")
asinh = _unary("asinh", np.arcsinh, "Return the inverse hyperbolic sine.", "[0.0]", "[0.0]")
acosh = _unary("acosh", np.arccosh, "Return the inverse hyperbolic cosine.", "[1.0]", "[0.0]")
atanh = _unary("atanh", np.arctanh, "Return the inverse hyperbolic tangent.", "[0.0]", "[0.0]")

# Complex numbers

conj = _unary("conj", np.conjugate, "Return the complex conjugate, as a copy.", "[1 + 2j]", "[(1-2j)]")

# Comparisons and tests: bool results, no gradients

equal = _binary("equal", np.equal, "Return where `x1` == `x2`.", "[1, 2]", "2", "[False, True]")
not_equal = _binary("not_equal", np.not_equal, "Return where `x1` != `x2`.", "[1, 2]", "2", "[True, False]")
less = _binary("less", np.less, "Return where `x1` < `x2`.", "[1, 2]", "2", "[True, False]")
less_equal = _binary(
    "less_equal", np.less_equal, "Return where `x1` <= `x2`.", "[1, 3]", "2", "[True, False]"
)
greater = _binary("greater", np.greater, "Return where `x1` > `x2`.", "[1, 3]", "2", "[False, True]")
greater_equal = _binary(
    "greater_equal", np.greater_equal, "Return where `x1` >= `x2`.", "[1, 2]", "2", "[False, True]"
)
logical_and = _binary(
    "logical_and", np.logical_and, "Return where both are true.", "[1, 0]", "True", "[True, False]"
)
logical_or = _binary(
    "logical_or", np.logical_or, "Return where one is true.", "[1, 0]", "False", "[True, False]"
)
logical_xor = _binary(
    "logical_xor", np.logical_xor, "Return where just one is true.", "[1, 0]", "True", "[False, True]"
)
logical_not = _unary("logical_not", np.logical_not, "Return where `x` is false.", "[1, 0]", "[False, True]")
isfinite = _unary("isfinite", np.isfinite, "Return where `x` is finite.", "[1.0]", "[True]")
isinf = _unary("isinf", np.isinf, "Return where `x` is infinite.", "[1.0]", "[False]")
isnan = _unary("isnan", np.isnan, "Return where `x` is not a number.", "[1.0]", "[False]")
signbit = _unary("signbit", np.signbit, "Return where the sign bit is set.", "[-1.0, 1.0]", "[True, False]")

# Bits: integers and bools, no gradients

bitwise_and = _binary("bitwise_and", np.bitwise_and, "Return the bits set in both.", "[6]", "3", "[2]")
bitwise_or = _binary("bitwise_or", np.bitwise_or, "Return the bits set in one or both.", "[6]", "3", "[7]")
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, "Return the bits set in just one.", "[6]", "3", "[5]")
bitwise_left_shift = _binary(
    "bitwise_left_shift", np.left_shift, "Shift the bits of `x1` left by `x2` places.", "[3]", "2", "[12]"
)
bitwise_right_shift = _binary(
    "bitwise_right_shift", np.right_shift, "Shift the bits of `x1` right by `x2` places.", "[12]", "2", "[3]"
)
bitwise_invert = _unary("bitwise_invert", np.invert, "Return the bits flipped.", "[0, 1]", "[-1, -2]")


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
    raised = x if low is None else np.maximum(x, low)
    return raised if high is None else np.minimum(raised, high)


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
    return apply(RULES["lerp"], lambda a, b, w: a + w * (b - a), (start, end, weight))


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
