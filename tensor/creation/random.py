"""Random tensors, with PyTorch's interface, from NumPy's generators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._dtypes import DtypeLike, as_dtype, float32, float64, int64, is_bfloat16, is_floating, is_inexact
from tensor._errors import InvalidArgumentError
from tensor.core.dims import sizes_of
from tensor.creation.from_data import finish, shape_of
from tensor.creation.generators import numbers_of
from tensor.kernels.running import run_kernel

if TYPE_CHECKING:
    from tensor import _numeric_limits
    from tensor._dtypes import Array, Dtype
    from tensor._tensor import Tensor
    from tensor.creation.generators import Generator
else:
    _numeric_limits = ModuleOnDemand("tensor._numeric_limits")


def _floating(op: str, dtype: DtypeLike | None) -> Dtype:
    wanted = float32 if dtype is None else as_dtype(dtype)
    if not is_inexact(wanted):
        raise TypeError(
            f"{op} returns floating numbers, not {wanted}: draw with randint, or convert the result"
        )
    return wanted


def uniform_array(sizes: tuple[int, ...], dtype: Dtype, generator: Generator | None) -> Array:
    """Return an array of uniform numbers from 0 to 1 (excluded). For complex dtypes, draw both parts."""
    return run_kernel(_uniform, numbers_of(generator), sizes, dtype)


def _uniform(numbers: np.random.Generator, sizes: tuple[int, ...], dtype: Dtype) -> Array:
    if dtype.kind == "c":
        return np.asarray(numbers.random(sizes) + 1j * numbers.random(sizes)).astype(dtype)
    drawn: Array = np.asarray(
        numbers.random(sizes) if dtype == float64 else numbers.random(sizes, np.float32)
    )
    if dtype.itemsize == 2:
        # Truncate to the precision of the dtype: rounding would turn some values into 1.
        steps = 2.0 ** (8 if is_bfloat16(dtype) else 11)
        drawn = np.floor(drawn * steps) / steps
    return np.asarray(drawn).astype(dtype, copy=False)


def normal_array(sizes: tuple[int, ...], dtype: Dtype, generator: Generator | None) -> Array:
    """Return an array of normal numbers with mean 0 and variance 1 (complex: 1/2 for each part)."""
    return run_kernel(_normal, numbers_of(generator), sizes, dtype)


def _normal(numbers: np.random.Generator, sizes: tuple[int, ...], dtype: Dtype) -> Array:
    drawn: object
    if dtype.kind == "c":
        drawn = (numbers.standard_normal(sizes) + 1j * numbers.standard_normal(sizes)) * 0.5**0.5
    elif dtype == float64:
        drawn = numbers.standard_normal(sizes)
    else:
        drawn = numbers.standard_normal(sizes, np.float32)
    return np.asarray(drawn).astype(dtype, copy=False)


def integer_array(
    op: str, low: int, high: int, sizes: tuple[int, ...], dtype: Dtype, generator: Generator | None
) -> Array:
    """Return an array of uniform integers from `low` to `high` (excluded), which `dtype` must represent."""
    if not low < high:
        raise InvalidArgumentError(f"{op}: low must be less than high, but low = {low} and high = {high}")
    least, most = integers_of(dtype)
    if low < least or high - 1 > most:
        raise InvalidArgumentError(
            f"{op}: {dtype} has integers from {least} to {most}, but the numbers are from {low} to {high} "
            "(excluded): pass a smaller range or another dtype"
        )
    if is_floating(dtype):
        # Rounding must not leave the range.
        first, last = np.int64(low).astype(dtype), np.int64(high - 1).astype(dtype)
        if int(float(first)) < low:
            low = int(float(np.nextafter(first, dtype.type(np.inf))))
        if int(float(last)) >= high:
            high = int(float(np.nextafter(last, dtype.type(-np.inf)))) + 1
        if not low < high:
            raise InvalidArgumentError(
                f"{op}: {dtype} has no integer in this range: pass a larger range or another dtype"
            )
    return run_kernel(_integers, numbers_of(generator), low, high, sizes, dtype)


def integers_of(dtype: Dtype) -> tuple[int, int]:
    """Return the smallest and the largest integer of `dtype`. For floating dtypes, they also fit int64."""
    if dtype.kind == "b":
        return 0, 1
    if not is_inexact(dtype):
        return _numeric_limits.iinfo(dtype).min, _numeric_limits.iinfo(dtype).max
    limits = _numeric_limits.iinfo(int64)
    most = _numeric_limits.finfo(dtype).max
    return (limits.min, limits.max) if most > limits.max else (-int(most), int(most))


def _integers(
    numbers: np.random.Generator, low: int, high: int, sizes: tuple[int, ...], dtype: Dtype
) -> Array:
    width = np.int64 if high <= 2**63 else np.uint64
    return np.asarray(numbers.integers(low, high, sizes, width)).astype(dtype, copy=False)


def rand(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DtypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers from the uniform distribution from 0 to 1 (excluded).

    Examples
    --------
    >>> import tensor
    >>> tensor.rand(2, 3).shape
    (2, 3)
    """
    sizes = shape_of(sizes_of("rand", size))
    return finish(uniform_array(sizes, _floating("rand", dtype), generator), requires_grad)


def randn(
    *size: int | Sequence[int],
    generator: Generator | None = None,
    dtype: DtypeLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers from the normal distribution with mean 0 and variance 1.

    Examples
    --------
    >>> import tensor
    >>> tensor.randn(2, 3).shape
    (2, 3)
    """
    sizes = shape_of(sizes_of("randn", size))
    return finish(normal_array(sizes, _floating("randn", dtype), generator), requires_grad)


def rand_like(x: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return uniform numbers from 0 to 1 (excluded), with the shape and dtype of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.rand_like(tensor.zeros((2, 3))).shape
    (2, 3)
    """
    return rand(*x.shape, dtype=x.dtype if dtype is None else dtype, requires_grad=requires_grad)


def randn_like(x: Tensor, *, dtype: DtypeLike | None = None, requires_grad: bool = False) -> Tensor:
    """Return normal numbers with mean 0 and variance 1, with the shape and dtype of `x`.

    Examples
    --------
    >>> import tensor
    >>> tensor.randn_like(tensor.zeros((2, 3))).shape
    (2, 3)
    """
    return randn(*x.shape, dtype=x.dtype if dtype is None else dtype, requires_grad=requires_grad)
