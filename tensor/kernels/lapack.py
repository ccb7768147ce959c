"""NumPy's linear algebra for all dtypes of tensors: LAPACK knows no half precision, and no integers."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._dtypes import Array


def of_any_dtype(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return `kernel` for float16, in which its results are too, and for integers, whose results are float32.

    Several results come as a tuple.
    """

    @wraps(kernel)
    def call(*arrays: Array, **options: Any) -> Any:
        is_half = all(array.dtype == np.float16 for array in arrays)
        found = kernel(*[_known(array) for array in arrays], **options)
        if not is_half:
            return found
        return tuple(map(_halved, found)) if isinstance(found, tuple) else _halved(found)

    return call


def _known(array: Array) -> Array:
    return array if array.dtype.char in "fdFD" else array.astype(np.float32)


def _halved(array: Any) -> Any:
    kind = array.dtype.kind
    return array.astype(np.float16) if kind == "f" else array


def as_complex(array: Array) -> Array:
    """Return `array` with complex elements of the same precision."""
    return array if array.dtype.kind == "c" else array.astype(np.result_type(array.dtype, np.complex64))
