"""A table from ufuncs and functions of `tensor.kernels.special` to compiled kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from tensor._dtypes import Array, fits, is_bfloat16
from tensor.core.promotion import in_float32
from tensor.kernels import elementwise as kernels
from tensor.kernels import special
from tensor.kernels.elementwise import UnaryKernel, power

# A kernel for a function of NumPy calls that function for arrays that the kernel does not support.
COMPILED: dict[Callable[..., Any], Callable[..., Any]] = {
    np.add: kernels.add,
    np.subtract: kernels.subtract,
    np.multiply: kernels.multiply,
    np.divide: kernels.divide,
    np.maximum: kernels.maximum,
    np.minimum: kernels.minimum,
    np.negative: kernels.negative,
    np.absolute: kernels.absolute,
    np.square: kernels.square,
    np.sqrt: kernels.sqrt,
    np.reciprocal: kernels.reciprocal,
    np.exp: kernels.exp,
    np.log: kernels.log,
    np.tanh: kernels.tanh,
    np.power: power,
    kernels.reciprocal_root: kernels.reciprocal_root,
    special.erf: kernels.erf,
    special.erfc: kernels.erfc,
    special.gelu: kernels.gelu,
    special.gelu_by_tanh: kernels.gelu_by_tanh,
    special.logsigmoid: kernels.logsigmoid,
    special.relu_of: kernels.relu,
    special.sigmoid: kernels.sigmoid,
    special.silu: kernels.silu,
    kernels.corrected_tanh: kernels.tanh,
}


# Functions with a parameter `out`, and the ufunc with the same shapes and dtypes.
_LIKE: dict[Any, np.ufunc] = {power: np.power, kernels.floor_divide: np.floor_divide}
# For real floats: functions, and the ufunc with the same result and a parameter `out`.
_OF_REALS: dict[Any, np.ufunc] = {
    np.round: np.rint,
    kernels.conjugate: np.positive,
    kernels.expm1: np.expm1,
    kernels.log1p: np.log1p,
    kernels.sign: np.sign,
}


def into_of(kernel: Any, operands: Sequence[Any]) -> tuple[Any, np.dtype[Any] | None]:
    """Return the function that ``compute_into`` calls instead of `kernel`, and the dtype of its result.

    Return (None, None) if `kernel` can't write its result over an operand.
    """
    first = operands[0]
    if isinstance(kernel, np.ufunc):
        found = None if kernel is np.matmul else kernel
    elif kernel in _LIKE:
        found = kernel
    elif not isinstance(first, np.ndarray) or first.dtype.kind != "f" or len(operands) != 1:
        found = None
    elif isinstance(COMPILED.get(kernel), UnaryKernel) and first.dtype.char in "fd":
        return (kernel, first.dtype) if first.dtype.isnative else (None, None)
    else:
        found = _OF_REALS.get(kernel)
    dtype = None if found is None else dtype_of(_LIKE.get(found, found), *operands)
    return (None, None) if dtype is None else (found, dtype)


def compute_into(ufunc: Any, operands: Sequence[Any], out: Array) -> Array:
    """Return ``ufunc(*operands, out=out)``; `out` may be one of the operands."""
    if is_bfloat16(out.dtype):
        np.copyto(out, in_float32(COMPILED.get(ufunc, ufunc), *operands), casting="same_kind")
        return out
    call = COMPILED.get(ufunc, ufunc)
    try:
        return call(*operands, out=out)  # type: ignore[no-any-return]
    except TypeError as error:
        # NumPy does not write signed integers to unsigned ones. Its error for this has the dtype in `from_`.
        found = getattr(error, "from_", None)
        if found is None or not fits(found, out.dtype):
            raise
    return np.positive(call(*operands), out=out, casting="unsafe")  # type: ignore[no-any-return]


# The result dtype by ufunc and the dtypes (or types of numbers) of its operands; None to let NumPy decide.
_dtypes: dict[tuple[Any, ...], np.dtype[Any] | None] = {}


def dtype_of(ufunc: np.ufunc, *operands: Any) -> np.dtype[Any] | None:
    """Return the dtype of the result of `ufunc` on arrays and Python numbers; None for several results."""
    kinds = [x.dtype if isinstance(x, (np.ndarray, np.generic)) else type(x) for x in operands]
    key = (ufunc, *kinds)
    if key not in _dtypes:
        found = None
        if ufunc.nout == 1 and ufunc.nin == len(kinds):
            given = [np.dtype(np.bool_) if kind is bool else kind for kind in kinds]
            with suppress(TypeError):  # the call itself raises a better error
                found = ufunc.resolve_dtypes((*given, None))[-1]
        _dtypes[key] = found
    return _dtypes[key]


def is_place_of(ufunc: np.ufunc, x1: Any, x2: Any, out: Array | None) -> bool:
    """Return whether `out` has the shape and dtype of ``ufunc(x1, x2)``. The shapes must broadcast."""
    if out is None or dtype_of(ufunc, x1, x2) != out.dtype:
        return False
    first, second = np.shape(x1), np.shape(x2)
    if first == out.shape and second in ((), first):
        return True  # saves the 2 us of `broadcast_shapes`
    shape = np.broadcast_shapes(first, second)
    return bool(shape == out.shape)
