"""Factors of operands: `alpha`, `beta` and `value`, as in ``x.add(y, alpha=2)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

import numpy as np

from tensor._dtypes import Array, Dtype, float32, is_inexact, result_type
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore
from tensor.ops import elementwise as f
from tensor.ops.data import as_tensor
from tensor.ops.messages import Operand

if TYPE_CHECKING:
    from tensor._tensor import Tensor


P = ParamSpec("P")
R = TypeVar("R")


def wide_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype to compute in for a result of `dtype`, so that it is rounded once."""
    return float32 if is_inexact(dtype) and dtype.itemsize == 2 else dtype


def rounded_to(dtype: Dtype, x: Operand) -> Any:
    """Return a Python number as PyTorch adds it to a tensor of `dtype`: rounded, if that has 16 bits.

    Return anything else as it is.
    """
    if type(x) not in (int, float) or not (is_inexact(dtype) and dtype.itemsize == 2):
        return x
    with np.errstate(over="ignore"):
        return float(np.asarray(x, float32).astype(dtype))


def rounding_number(method: Callable[P, R]) -> Callable[P, R]:
    """Return a `method` of a tensor and the operand `other`, which is rounded as in ``rounded_to``.

    For a composite, which computes bfloat16 in float32. Ops with one kernel round numbers themselves.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        given: Any = list(args)
        named: Any = kwargs
        if len(given) > 1:
            given[1] = rounded_to(as_tensor(given[0]).dtype, given[1])
        elif "other" in named:
            named["other"] = rounded_to(as_tensor(given[0]).dtype, named["other"])
        return method(*given, **named)

    return call


def require_whole(name: str, alpha: complex, *operands: Operand, factor: str = "alpha") -> None:
    """Raise an error for a fraction as `alpha` of integers: the result would be floating."""
    dtype = result_type(*operands)
    if isinstance(alpha, float) and not is_inexact(dtype):
        raise InvalidArgumentError(
            f"{name}: {factor}={alpha} takes a floating tensor, not {dtype}: write {factor}={round(alpha)}, "
            "or convert one tensor with x.to(torch.float32)"
        )


def scaled(other: Operand, factor: complex, dtype: Dtype) -> Operand:
    """Return ``other * factor``, computed in `dtype`, the result dtype of an op that adds it.

    A number stays a Python number, which adapts to the dtype of the tensor. As in PyTorch, an integer `dtype`
    truncates the factor, and wraps negative ones if it is unsigned.
    """
    if not is_inexact(dtype) and not isinstance(factor, complex):
        factor = bool(factor) if dtype.kind == "b" else int(factor)
        if dtype.kind == "u" and factor < 0:
            factor += 1 << 8 * dtype.itemsize
    if isinstance(other, (int, float, complex)):
        return other * factor
    return cast(other, dtype) if factor == 1 else f.multiply(cast(other, dtype), factor)


@overload
def cast(x: TensorCore | Array | np.generic, dtype: Dtype) -> Tensor: ...
@overload
def cast(x: Operand, dtype: Dtype) -> Operand: ...
def cast(x: Operand, dtype: Dtype) -> Operand:
    """Return `x`, cast to `dtype` if it has another one. Python numbers have no dtype."""
    if isinstance(x, (int, float, complex)):
        return x
    given = as_tensor(x)
    return given if given.dtype == dtype else given.to(dtype)
