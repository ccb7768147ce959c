"""Elementwise functions, and the operators of tensors."""

from __future__ import annotations

import numpy as np

from tensor._core import TensorCore
from tensor._derivatives import RULES
from tensor._dispatch import binary, unary

add = binary(RULES["add"], np.add)
subtract = binary(RULES["subtract"], np.subtract)
multiply = binary(RULES["multiply"], np.multiply)
divide = binary(RULES["divide"], np.divide)
exp = unary(RULES["exp"], np.exp)


class Arithmetic(TensorCore):
    """Operators."""

    __slots__ = ()

    __add__ = __radd__ = add
    __mul__ = __rmul__ = multiply
    __sub__ = subtract
    __truediv__ = divide
