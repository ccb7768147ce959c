"""The derivatives of all ops, one table."""

from tensor.tape.rules import (
    elementwise,
    factorizations,
    fourier,
    linalg,
    overlay,
    reductions,
    shapes,
    solving,
)
from tensor.tape.rules.table import RULES

__all__ = [
    "RULES",
    "elementwise",
    "factorizations",
    "fourier",
    "linalg",
    "overlay",
    "reductions",
    "shapes",
    "solving",
]
