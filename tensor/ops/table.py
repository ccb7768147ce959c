"""The ops with one kernel: each a name, and the ufunc of NumPy or a kernel of `tensor.kernels`.

The derivative of each is in ``tensor/tape/rules/elementwise.py``. The functions are in
``tensor/ops/elementwise.py``, the methods in the families of ``tensor/methods``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensor.kernels import elementwise as kernels
from tensor.kernels import special
from tensor.kernels.elementwise import BinaryKernel, UnaryKernel, power
from tensor.kernels.products import matrix_product
from tensor.kernels.ufuncs import COMPILED
from tensor.ops.dispatch import BinaryOp, UnaryOp, function_of
from tensor.tape.rules import RULES

# The ops by name.
OPS: dict[str, UnaryOp | BinaryOp] = {}


def unary(name: str, kernel: Callable[[Any], Any]) -> UnaryOp:
    """Return the op `name` of one operand. It tries a compiled version of `kernel` first, if there is one."""
    compiled = COMPILED.get(kernel)
    op = OPS[name] = UnaryOp(RULES[name], kernel, compiled if isinstance(compiled, UnaryKernel) else None)
    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, op)
    return op


def binary(name: str, kernel: Callable[[Any, Any], Any]) -> BinaryOp:
    """Return the op `name` of two operands; see ``unary``."""
    compiled = COMPILED.get(kernel)
    op = OPS[name] = BinaryOp(RULES[name], kernel, compiled if isinstance(compiled, BinaryKernel) else None)
    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, op)
    return op


# Arithmetic

add: Final = binary("add", np.add)
subtract: Final = binary("subtract", np.subtract)
divide: Final = binary("divide", np.divide)
multiply: Final = binary("multiply", np.multiply)
floor_divide: Final = binary("floor_divide", kernels.floor_divide)
remainder: Final = binary("remainder", np.remainder)
pow: Final = binary("pow", power)
maximum: Final = binary("maximum", np.maximum)
minimum: Final = binary("minimum", np.minimum)
hypot: Final = binary("hypot", np.hypot)
atan2: Final = binary("atan2", np.arctan2)
logaddexp: Final = binary("logaddexp", np.logaddexp)
copysign: Final = binary("copysign", np.copysign)
nextafter: Final = binary("nextafter", np.nextafter)
negative: Final = unary("negative", np.negative)
positive: Final = unary("positive", np.positive)
abs: Final = unary("abs", np.abs)
reciprocal: Final = unary("reciprocal", np.reciprocal)
square: Final = unary("square", np.square)
sign: Final = unary("sign", kernels.sign)
ceil: Final = unary("ceil", np.ceil)
floor: Final = unary("floor", np.floor)
trunc: Final = unary("trunc", np.trunc)
round: Final = unary("round", np.round)

# Powers, exponentials, logarithms

exp: Final = unary("exp", np.exp)
exp2: Final = unary("exp2", np.exp2)
expm1: Final = unary("expm1", kernels.expm1)
log: Final = unary("log", np.log)
log1p: Final = unary("log1p", kernels.log1p)
log2: Final = unary("log2", np.log2)
log10: Final = unary("log10", np.log10)
sqrt: Final = unary("sqrt", np.sqrt)
rsqrt: Final = unary("rsqrt", kernels.reciprocal_root)

# Trigonometry, in radians

sin: Final = unary("sin", np.sin)
cos: Final = unary("cos", np.cos)
tan: Final = unary("tan", np.tan)
asin: Final = unary("asin", np.arcsin)
acos: Final = unary("acos", np.arccos)
atan: Final = unary("atan", np.arctan)
sinh: Final = unary("sinh", np.sinh)
cosh: Final = unary("cosh", np.cosh)
tanh: Final = unary("tanh", kernels.corrected_tanh)
asinh: Final = unary("asinh", np.arcsinh)
acosh: Final = unary("acosh", np.arccosh)
atanh: Final = unary("atanh", np.arctanh)

# Activations and special functions

relu: Final = unary("relu", special.relu_of)
sigmoid: Final = unary("sigmoid", special.sigmoid)
logsigmoid: Final = unary("logsigmoid", special.logsigmoid)
erf: Final = unary("erf", special.erf)
erfinv: Final = unary("erfinv", special.erfinv)
erfc: Final = unary("erfc", special.erfc)

# Complex numbers

conj: Final = unary("conj", kernels.conjugate)

# Comparisons and tests: bool results, no gradients

equal: Final = binary("equal", np.equal)
not_equal: Final = binary("not_equal", np.not_equal)
less: Final = binary("less", np.less)
less_equal: Final = binary("less_equal", np.less_equal)
greater: Final = binary("greater", np.greater)
greater_equal: Final = binary("greater_equal", np.greater_equal)
logical_and: Final = binary("logical_and", np.logical_and)
logical_or: Final = binary("logical_or", np.logical_or)
logical_xor: Final = binary("logical_xor", np.logical_xor)
logical_not: Final = unary("logical_not", np.logical_not)
isfinite: Final = unary("isfinite", np.isfinite)
isinf: Final = unary("isinf", np.isinf)
isnan: Final = unary("isnan", np.isnan)
signbit: Final = unary("signbit", np.signbit)

# Bits: integers and bools, no gradients

bitwise_and: Final = binary("bitwise_and", np.bitwise_and)
bitwise_or: Final = binary("bitwise_or", np.bitwise_or)
bitwise_xor: Final = binary("bitwise_xor", np.bitwise_xor)
bitwise_left_shift: Final = binary("bitwise_left_shift", np.left_shift)
bitwise_right_shift: Final = binary("bitwise_right_shift", np.right_shift)
bitwise_invert: Final = unary("bitwise_invert", np.invert)

# Products of matrices

matmul: Final = binary("matmul", matrix_product)

# Ufuncs whose kernel is another one

function_of[np.power] = pow
function_of[np.floor_divide] = floor_divide
function_of[np.expm1] = expm1
function_of[np.log1p] = log1p
function_of[np.sign] = sign
function_of[np.conjugate] = conj
function_of[np.tanh] = tanh
function_of[np.matmul] = matmul
