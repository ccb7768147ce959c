"""The derivatives of all ops, one table."""

from tensor.tape.rules import elementwise, linalg, overlay, reductions, shapes
from tensor.tape.rules.table import RULES

__all__ = ["RULES", "elementwise", "linalg", "overlay", "reductions", "shapes"]
