"""PyTorch's functions for dtype promotion."""

from __future__ import annotations

from tensor import result_type
from tensor._dtypes import Dtype, DtypeLike, as_dtype, fits

__all__ = ["can_cast", "promote_types"]


def can_cast(from_: DtypeLike, to: DtypeLike) -> bool:
    """Return whether PyTorch writes a result of dtype `from_` to ``out=`` of dtype `to`.

    It does not if `to` is of a lower kind. The kinds are, in order, bool, integer, floating and complex.
    Widths have no effect.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.can_cast(torch.double, torch.float), torch.can_cast(torch.float, torch.int)
    (True, False)
    """
    return fits(as_dtype(from_), as_dtype(to))


def promote_types(type1: DtypeLike, type2: DtypeLike) -> Dtype:
    """Return the result dtype of an operation on two dtypes.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> str(torch.promote_types(torch.float16, torch.int64))
    'float16'
    """
    return result_type(as_dtype(type1), as_dtype(type2))
