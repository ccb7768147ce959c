"""NumPy's functions of plain arrays, with large results in memory of the pool.

What they return is what NumPy would, in dtype, values and order of memory. Small results are NumPy's own.
"""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tensor.kernels.split_reductions import reduce_on_threads
from tensor.kernels.splitting import copy_values, least, split
from tensor.memory import pool as _pool
from tensor.memory.pool import pool, room

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor.core.storage import Array

Shape = tuple[int, ...]

ndarray = np.ndarray


def _order_of(shape: Shape, arrays: Sequence[Array]) -> Array | None:
    """Return an array in the memory order of an elementwise op's result; None is C order."""
    first = arrays[0]
    strides = first.strides
    if 0 not in strides and all(x.strides == strides and x.shape == shape for x in arrays):
        return first
    # Where orders mix, or elements stand for several, NumPy decides: by strides, so the corners of the arrays
    # show it what it needs.
    corners = [x[tuple([slice(2)] * x.ndim)] for x in arrays]
    flags: Any = [*[["readonly"]] * len(corners), ["writeonly", "allocate"]]
    corner = np.nditer((*corners, None), ["zerosize_ok"], flags, order="K").operands[-1]
    found = [0] * len(shape)
    step = 1
    for axis in sorted(range(len(shape)), key=lambda i: corner.strides[i]):
        found[axis] = step
        step *= shape[axis]
    return as_strided(np.empty(1, np.bool_), shape, found)


# By ufunc and the dtypes, or types of numbers, of its operands: the result's; None where NumPy is asked.
_dtypes: dict[tuple[Any, ...], np.dtype[Any] | None] = {}


def dtype_of(*key: Any) -> np.dtype[Any] | None:
    """Return the dtype of a result; `key` is the ufunc, and the dtypes or number types of its operands."""
    try:
        return _dtypes[key]
    except KeyError:
        pass
    ufunc, *operands = key
    given = [np.dtype(np.bool_) if kind is bool else kind for kind in operands]
    found = None
    if ufunc.nout == 1 and ufunc.nin == len(given):
        with suppress(TypeError):  # which the call says better
            found = ufunc.resolve_dtypes((*given, None))[-1]
    _dtypes[key] = found
    return found


def of_one(ufunc: np.ufunc, x: Array) -> Any:
    """Return ``ufunc(x)`` of a plain array, in memory of the pool where it is large."""
    try:
        dtype = _dtypes[ufunc, x.dtype]  # 40 ns less than the call
    except KeyError:
        dtype = dtype_of(ufunc, x.dtype)
    if dtype is None:
        return ufunc(x)
    n = x.size * dtype.itemsize
    is_alone = x.nbytes < least[ufunc]
    if n < pool.min_pooled and is_alone:
        return ufunc(x)
    if x.flags.c_contiguous and n >= pool.min_pooled:
        out = room(n, x.shape, dtype)
    else:
        out = _pool.empty(x.shape, dtype, _order_of(x.shape, (x,)))
    return ufunc(x, out=out) if is_alone else split(ufunc, (x,), out)


def of_two(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    """Return ``ufunc(a, b)`` of plain arrays, one of which may be a number, as ``of_one`` does."""
    one, two = type(a) is ndarray, type(b) is ndarray
    key = ufunc, a.dtype if one else key_of(a), b.dtype if two else key_of(b)
    try:
        dtype = _dtypes[key]
    except KeyError:
        dtype = dtype_of(*key)
    if dtype is None or not (one or two):
        return ufunc(a, b)
    x = a if one else b
    y = b if two else x
    shape = x.shape
    is_alike = y is x or y.shape == shape
    if not is_alike:
        shape = _joint_shape(shape, y.shape)
    n = (x.size if is_alike else prod(shape)) * dtype.itemsize
    size = least[ufunc]
    is_alone = n < size and x.nbytes < size
    if n < pool.min_pooled and is_alone:
        return ufunc(a, b)
    is_ordered = x.flags.c_contiguous and y.flags.c_contiguous
    if is_alike and is_ordered and n >= pool.min_pooled:
        out = room(n, shape, dtype)
    else:
        out = _pool.empty(shape, dtype, None if is_ordered else _order_of(shape, (x, y)))
    return ufunc(a, b, out=out) if is_alone else split(ufunc, (a, b), out)


def key_of(x: Any) -> Any:
    """Return the dtype of an array, the type of a number."""
    return x.dtype if isinstance(x, (ndarray, np.generic)) else type(x)


def _joint_shape(first: Shape, second: Shape) -> Shape:
    """Return the shape of an elementwise op of two; where there is none, of the first: NumPy says why."""
    try:
        return np.broadcast_shapes(first, second)
    except ValueError:
        return first


def matmul(a: Array, b: Array) -> Any:
    """Return the product of matrices, vectors or batches: plain arrays, as ``of_one`` does."""
    if a.ndim == b.ndim == 2:
        shape: Shape = (a.shape[0], b.shape[1])
        if shape[0] * shape[1] * (a.itemsize + b.itemsize) < pool.min_pooled:  # small: here in 150 ns
            return np.matmul(a, b)
    else:
        shape = shape_of_product(a.shape, b.shape)
    dtype = dtype_of(np.matmul, a.dtype, b.dtype)
    if dtype is None or prod(shape) * dtype.itemsize < pool.min_pooled:
        return np.matmul(a, b)
    return np.matmul(a, b, out=_pool.empty(shape, dtype))


def shape_of_product(first: Shape, second: Shape) -> Shape:
    """Return the shape of a product of matrices, vectors or batches; the inner sizes are NumPy's to check."""
    batch = _joint_shape(first[:-2], second[:-2])
    return batch + first[-2:-1] + (second[-1:] if len(second) > 1 else ())


# Ufuncs whose reductions of inexact numbers keep the dtype.
_KEEP_DTYPE = frozenset({np.add, np.multiply, np.maximum, np.minimum})


def room_to_reduce(
    ufunc: np.ufunc, array: Array, axis: Any = 0, dtype: Any = None, keepdims: bool = False, **_: Any
) -> Array | None:
    """Return memory for ``ufunc.reduce``; None where the result is small, or NumPy has to make it."""
    kept = dtype is None or dtype == array.dtype
    if axis is None or ufunc not in _KEEP_DTYPE or array.dtype.kind not in "fc" or not kept:
        return None
    axes = [i % array.ndim for i in ((axis,) if isinstance(axis, int) else axis)]
    left = [1 if i in axes else n for i, n in enumerate(array.shape)]
    if prod(left) * array.itemsize < pool.min_pooled:
        return None
    steps = [abs(step) for step, n in zip(array.strides, left, strict=True) if n > 1]
    if 0 in steps[:-1] or steps != sorted(steps, reverse=True):
        return None  # in an order of memory of its own
    shape = left if keepdims else [n for i, n in enumerate(left) if i not in axes]
    return _pool.empty(tuple(shape), array.dtype)


def room_to_reduce_at(ufunc: np.ufunc, array: Array, places: Any, axis: int = 0, **_: Any) -> Array | None:
    shape = (len(places), *array.shape[1:])
    kept = ufunc in _KEEP_DTYPE and array.dtype.kind in "fc" and array.flags.c_contiguous
    if axis != 0 or not kept or prod(shape) * array.itemsize < pool.min_pooled:
        return None
    return _pool.empty(shape, array.dtype)


def reduce(ufunc: Any, array: Array, axis: Any, dtype: Any, keepdims: bool) -> Any:
    """Return ``ufunc.reduce`` of a plain array, in memory of the pool where it is large."""
    n = array.nbytes
    if n < pool.min_pooled:
        return ufunc.reduce(array, axis, dtype, None, keepdims)
    if n >= least[ufunc] and array.flags.c_contiguous:
        found = reduce_on_threads(ufunc, array, axis, dtype, keepdims)
        if found is not None:
            return found
    return ufunc.reduce(array, axis, dtype, room_to_reduce(ufunc, array, axis, dtype, keepdims), keepdims)


def mean(array: Array, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Return the mean of a plain array over `axis`, in memory of the pool where it is large."""
    # Of integers and half precision NumPy adds up something wider, complex sums it divides by something
    # wider, and of nothing it warns.
    if array.dtype.kind != "f" or array.dtype == np.float16 or dtype is not None or not array.size:
        return np.mean(array, axis, dtype, keepdims=keepdims)
    total = reduce(np.add, array, axis, dtype, keepdims)
    if not isinstance(total, ndarray):
        return total / total.dtype.type(array.size)
    return np.divide(total, total.dtype.type(array.size // total.size), out=total)


def copy(array: Array) -> Array:
    """Return a copy in the same order of memory; from the pool when it is large."""
    if array.nbytes < pool.min_pooled:
        return array.copy(order="K")
    return copy_values(array, _pool.empty(array.shape, array.dtype, array))


def laid_out(array: Array) -> Array:
    """Return a copy in C order."""
    return copy_values(array, _pool.empty(array.shape, array.dtype))


def astype(array: Array, dtype: Any, *, copy: bool = True) -> Array:
    """Return the values as `dtype`, in the same memory order; the array itself where nothing changes."""
    if array.size * 16 < pool.min_pooled:
        return array.astype(dtype, copy=copy)
    dtype = np.dtype(dtype)
    if array.size * dtype.itemsize < pool.min_pooled or (not copy and array.dtype == dtype):
        return array.astype(dtype, copy=copy)
    return copy_values(array, _pool.empty(array.shape, dtype, array))


def reshape(array: Array, shape: int | Shape) -> Array:
    """Return a view in another shape, else a copy; the array itself where nothing changes."""
    if array.shape == shape:
        return array
    if array.nbytes < pool.min_pooled or array.flags.c_contiguous:
        return array.reshape(shape)
    try:
        return array.reshape(shape, copy=False)
    except ValueError:
        pass  # which leaves a copy, or a shape that does not fit
    sizes = np.broadcast_to(np.False_, array.size).reshape(shape).shape
    out = _pool.empty(sizes, array.dtype)
    copy_values(array, out.reshape(array.shape))
    return out


def take(array: Array, indices: Array, axis: int) -> Array:
    """Return the parts of `array` along `axis` that `indices` name, all of them known to be there."""
    if indices.size * array.nbytes < pool.min_pooled:
        return array.take(indices, axis)
    shape = array.shape[:axis] + indices.shape + array.shape[axis + 1 :]
    if prod(shape) * array.itemsize < pool.min_pooled:
        return array.take(indices, axis)
    # Where indices may be wrong, NumPy gathers into memory of its own first.
    return array.take(indices, axis, out=_pool.empty(shape, array.dtype), mode="wrap")


def leaves(indices: Array, size: int) -> bool:
    """Tell whether some index names no place among `size`."""
    return bool(indices.size and (indices.min() < -size or indices.max() >= size))


# Bytes from which on `where` works by bits: at 100,000 float32 it takes 125 us in place of 170, and of 490
# where the processor can't guess the condition.
_LEAST_BITS = 1 << 16


def where(condition: Any, x1: Any, x2: Any) -> Any:
    """Return `x1` where `condition` is true, else `x2`."""
    if type(condition) is ndarray and condition.size * 16 < _LEAST_BITS:
        shape = condition.shape
        if all(type(x) is not ndarray or x.size == 1 or x.shape == shape for x in (x1, x2)):
            return np.where(condition, x1, x2)
    arrays = [x for x in (condition, x1, x2) if isinstance(x, ndarray)]
    dtype = np.result_type(x1, x2)
    shape = np.broadcast_shapes(*[x.shape for x in arrays])
    if prod(shape) * dtype.itemsize < _LEAST_BITS or not arrays:
        return np.where(condition, x1, x2)
    like = None if all(x.flags.c_contiguous for x in arrays) else _order_of(shape, arrays)
    out = _pool.empty(shape, dtype, like)
    condition = np.asarray(condition)
    if condition.dtype.kind != "b":
        condition = condition != 0
    if dtype.itemsize in _BITS:
        mask = _pool.empty(shape, _BITS[dtype.itemsize], like)
        _by_parts(_select, (condition, np.asarray(x1, dtype), np.asarray(x2, dtype), mask), out)
    else:
        np.copyto(out, x2)
        np.copyto(out, x1, where=condition)
    return out


_BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def _by_parts(function: Any, operands: Sequence[Array], out: Array) -> Array:
    """Let `function`, which makes a mask, write to `out` by parts, so that the mask stays in a cache."""
    alone = out.nbytes < least[np.where]
    # Elements. Several threads take more, lest they wait for each other: at 3,000,000 they take 1.8 ms for
    # 3.3 with parts of 2**16, and one alone 3.5.
    return split(function, operands, out, alone=alone, at_once=1 << 15 if alone else 1 << 18)


def _select(condition: Array, x1: Array, x2: Array, mask: Array, *, out: Array) -> None:
    """Write to `out` where() of three arrays, bit by bit: at 1,000,000 elements an eighth of NumPy's time."""
    bits = mask.dtype
    np.negative(condition.view(np.int8), out=mask, dtype=bits, casting="unsafe")  # all bits or none
    target, other = out.view(bits), x2.view(bits)
    np.bitwise_xor(x1.view(bits), other, out=target)
    target &= mask
    target ^= other


def concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Return `arrays` one behind the other along `axis`."""
    size = sum([x.shape[axis] for x in arrays])
    first = arrays[0].shape
    place = axis % len(first)
    shape = (*first[:place], size, *first[place + 1 :])
    dtype = np.result_type(*arrays)
    if prod(shape) * dtype.itemsize < pool.min_pooled or not all(x.flags.c_contiguous for x in arrays):
        return np.concatenate(arrays, axis)
    return np.concatenate(arrays, axis, out=_pool.empty(shape, dtype))


def stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    """Return `arrays` along a new dimension at place `axis`."""
    key = (slice(None),) * (axis % (arrays[0].ndim + 1))
    return concatenate([x[(*key, None)] for x in arrays], len(key))


def zeros(shape: int | Shape, dtype: Any = np.float64) -> Any:
    """Return zeros."""
    return _pool.zeros((shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype))


def running(ufunc: np.ufunc, array: Array, axis: int) -> Array:
    """Return the running sums or products along `axis`."""
    if array.nbytes < pool.min_pooled or array.dtype.kind not in "fc":
        return np.cumsum(array, axis) if ufunc is np.add else np.cumprod(array, axis)
    return ufunc.accumulate(array, axis, out=_pool.empty(array.shape, array.dtype, array))


def keep_where(x: Any, mask: Any) -> Any:
    """Return `x` where `mask` is true, else 0, also where `x` is infinite or nan there: by bits.

    A product takes as long (64x128 float32: 3.9 us, this 4.8; 512x1024: 290 us, this 170), np.where twice to
    ten times as long.
    """
    if (
        type(x) is ndarray
        and type(mask) is ndarray
        and x.shape == mask.shape
        and x.itemsize in _BITS
        and x.nbytes < _LEAST_BITS
    ):
        bits = mask.astype(_BITS[x.itemsize])
        np.negative(bits, bits)
        bits &= x.view(bits.dtype)
        return bits.view(x.dtype)
    return where(mask, x, 0)


def where_nonzero(x: Array, by: Array, out: Array | None = None) -> Any:
    """Return ``keep_where(x, by != 0)`` of large arrays of one shape, without a mask of that shape beside it.

    The result may be written to `out`, which may be `x`.
    """
    if not (x.flags.c_contiguous and by.flags.c_contiguous and x.itemsize in _BITS):
        return where(of_two(np.not_equal, by, 0), x, 0)
    return _by_parts(_keep_nonzero, (x, by), room(x.nbytes, x.shape, x.dtype) if out is None else out)


def _keep_nonzero(x: Array, by: Array, *, out: Array) -> None:
    bits = np.not_equal(by, 0).astype(_BITS[x.itemsize])
    np.negative(bits, bits)
    np.bitwise_and(x.view(bits.dtype), bits, out=out.view(bits.dtype))
