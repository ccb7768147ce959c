"""The derivatives of all ops, one table."""

from tensor._derivatives import _elementwise, _linalg, _overlay, _reductions, _shapes
from tensor._derivatives._table import RULES

__all__ = ["RULES", "_elementwise", "_linalg", "_overlay", "_reductions", "_shapes"]
