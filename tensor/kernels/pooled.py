"""Arrays whose results take their memory from the pool.

A kernel or a derivative is written as for NumPy arrays: ``g * gate * (1 + x * (1 - gate))``. Large operands
are handed to it by ``enter``; then each intermediate result, and the last one, lies in a block of the pool,
and a training step that repeats itself finds all its blocks there. ``leave`` gives the plain array back: the
very one that the pool handed out. Small arrays pass both unchanged.

A `Pooled` is no subclass of ``numpy.ndarray`` but stands in front of one: so what lies beneath is never a
view of a view, and an operator costs half of what ``__array_ufunc__`` would.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels import placing
from tensor.kernels.placing import (
    astype,
    concatenate,
    keep_where,
    laid_out,
    leaves,
    matmul,
    mean,
    of_one,
    of_two,
    reduce,
    reshape,
    room_to_reduce,
    room_to_reduce_at,
    running,
    stack,
    take,
    where,
    where_nonzero,
    zeros,
)
from tensor.kernels.scatter_add import spread
from tensor.kernels.splitting import split_in_place
from tensor.memory import pool as _pool
from tensor.memory.pool import pool

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor.core.storage import Array

ndarray = np.ndarray
_new = object.__new__
_NUMBERS = frozenset({bool, int, float, complex})
# Keys that pick a view.
_BASIC = frozenset({int, slice, EllipsisType, type(None)})


def enter(x: Any) -> Any:
    """Return `x` with its results in the pool where it is a large array, else `x` itself."""
    return around(x) if type(x) is ndarray and x.nbytes >= pool.min_pooled else x


def leave(x: Any) -> Any:
    """Return the plain array of a result: the very one that the pool handed out."""
    return x._array if type(x) is Pooled else x


def around(array: Array) -> Pooled:
    """Return what stands in front of `array`."""
    pooled = _new(Pooled)
    pooled._array = array
    return pooled


def plain(x: Any) -> Any:
    """Return `x`, a value or nested tuples and lists of such, with plain arrays."""
    kind = type(x)
    if kind is Pooled:
        return x._array
    if kind is tuple or kind is list:
        return kind([plain(item) for item in x])
    return x


def _wrapped(out: Any) -> Any:
    return around(out) if type(out) is ndarray and out.nbytes >= pool.min_pooled else out


def _binary(ufunc: np.ufunc) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    def operator(self: Pooled, other: Any) -> Any:
        return _wrapped(of_two(ufunc, self._array, other._array if type(other) is Pooled else other))

    def reflected(self: Pooled, other: Any) -> Any:
        return _wrapped(of_two(ufunc, other, self._array))

    return operator, reflected


def _in_place(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    def operator(self: Pooled, other: Any) -> Any:
        array = self._array
        split_in_place(ufunc, (array, other._array if type(other) is Pooled else other), array)
        return self

    return operator


def _unary(ufunc: np.ufunc) -> Callable[[Any], Any]:
    def operator(self: Pooled) -> Any:
        return _wrapped(of_one(ufunc, self._array))

    return operator


class Pooled:
    """A plain array, with those of NumPy's operators, methods and functions that kernels are written in."""

    __slots__ = ("_array",)

    _array: Array

    def __getattr__(self, name: str) -> Any:
        # Attributes (shape, dtype), views (T, real), and methods that need no large memory.
        if name.startswith("__"):
            raise AttributeError(name)  # protocols by which NumPy would look past __array__
        found = getattr(self._array, name)
        return _wrapped(found) if type(found) is ndarray else found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self._array
        if not copy and (dtype is None or dtype == array.dtype):
            return array
        return np.array(array, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self._array)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        operands = plain(inputs)
        if method == "__call__" and not options:
            if ufunc is np.matmul:
                return _wrapped(matmul(*operands))
            if len(operands) == 1:
                return _wrapped(of_one(ufunc, *operands))
            if len(operands) == 2:
                return _wrapped(of_two(ufunc, *operands))
        target = options.get("out")
        if target is not None:
            options["out"] = plain(target)
            if method == "__call__" and len(options) == len(target) == 1:
                split_in_place(ufunc, operands, *options["out"])
                return target[0]
        elif method == "reduce":
            options["out"] = room_to_reduce(ufunc, *operands, **options)
        elif method == "reduceat":
            options["out"] = room_to_reduce_at(ufunc, *operands, **options)
        result = getattr(ufunc, method)(*operands, **options)
        return target[0] if target is not None and len(target) == 1 else _wrapped(result)

    def __array_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        ours = _functions.get(function)
        if ours is not None:
            return ours(*arguments, **options)
        named = {name: plain(value) for name, value in options.items()}
        result = function(*plain(arguments), **named)
        if isinstance(result, (tuple, list)):
            return type(result)([_wrapped(x) for x in result])
        return _wrapped(result)

    def __getitem__(self, key: Any) -> Any:
        key = plain(key)
        array = self._array
        if isinstance(key, tuple) and len(key) == 1:
            (key,) = key
        if type(key) is ndarray and key.dtype.kind in "iu" and not leaves(key, array.shape[0]):
            return _wrapped(take(array, key, 0))
        return _wrapped(array[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._array[plain(key)] = plain(value)

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        return _wrapped(astype(self._array, dtype, copy=copy))

    def copy(self, order: str = "C") -> Any:
        if order == "C" and not self._array.flags.c_contiguous:
            return _wrapped(laid_out(self._array))
        return _wrapped(placing.copy(self._array))

    def reshape(self, *shape: Any) -> Any:
        return _wrapped(reshape(self._array, shape[0] if len(shape) == 1 else shape))

    def sum(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _wrapped(reduce(np.add, self._array, axis, dtype, keepdims))

    def mean(self, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _wrapped(mean(self._array, axis, dtype, keepdims))

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        return _wrapped(reduce(np.maximum, self._array, axis, None, keepdims))

    def take(self, indices: Any, axis: Any = None) -> Any:
        return np.take(self._array, indices, axis)

    def __pow__(self, other: Any) -> Any:
        # As NumPy does it: a product for a square takes a quarter of the time.
        if self._array.dtype.kind not in "fc":
            return _wrapped(self._array ** plain(other))
        if type(other) in _NUMBERS and other in _POWERS:
            return _wrapped(of_one(_POWERS[other], self._array))
        return _wrapped(of_two(np.power, self._array, plain(other)))

    def __rpow__(self, other: Any) -> Any:
        return _wrapped(of_two(np.power, other, self._array))

    __add__, __radd__ = _binary(np.add)
    __sub__, __rsub__ = _binary(np.subtract)
    __mul__, __rmul__ = _binary(np.multiply)
    __truediv__, __rtruediv__ = _binary(np.divide)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide)
    __mod__, __rmod__ = _binary(np.remainder)
    __and__, __rand__ = _binary(np.bitwise_and)
    __or__, __ror__ = _binary(np.bitwise_or)
    __xor__, __rxor__ = _binary(np.bitwise_xor)
    __lt__, _ = _binary(np.less)
    __le__, _ = _binary(np.less_equal)
    __gt__, _ = _binary(np.greater)
    __ge__, _ = _binary(np.greater_equal)
    __eq__, _ = _binary(np.equal)
    __ne__, _ = _binary(np.not_equal)
    __hash__ = None  # type: ignore[assignment]  # == is elementwise
    del _
    __iadd__ = _in_place(np.add)
    __isub__ = _in_place(np.subtract)
    __imul__ = _in_place(np.multiply)
    __itruediv__ = _in_place(np.divide)
    __neg__ = _unary(np.negative)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)


_POWERS = {2: np.square, 0.5: np.sqrt, -1: np.reciprocal}


def _like(value: Any) -> Callable[..., Any]:
    def function(x: Any, dtype: Any = None) -> Any:
        array = plain(x)
        out = _pool.empty(array.shape, array.dtype if dtype is None else np.dtype(dtype), array)
        if value is not None:
            out.fill(value)
        return _wrapped(out)

    return function


def _pooling(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return `function` of plain arrays as one of plain and pooled ones."""

    def outer(*arguments: Any, **options: Any) -> Any:
        return _wrapped(function(*plain(arguments), **options))

    return outer


def _reducing(ufunc: np.ufunc) -> Callable[..., Any]:
    def function(x: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return _wrapped(reduce(ufunc, plain(x), axis, dtype, keepdims))

    return function


def _triangle(lower: bool) -> Callable[..., Any]:
    def function(x: Any, k: int = 0) -> Any:
        rows, columns = x.shape[-2:]
        mask = np.tri(rows, columns, k if lower else k - 1, np.bool_)
        array = plain(x)
        return _wrapped(where(mask, array, 0) if lower else where(mask, 0, array))

    return function


def _as_array(x: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    array = np.asarray(plain(x))
    if dtype is not None and array.dtype != dtype:
        return _wrapped(astype(array, dtype))
    return _wrapped(placing.copy(array) if copy else array)


_functions: dict[Any, Callable[..., Any]] = {
    np.astype: _pooling(astype),
    np.clip: lambda x, low, high: np.minimum(np.maximum(x, low), high),
    np.concatenate: _pooling(concatenate),
    np.copy: lambda x: x.copy("K"),
    np.cumulative_prod: lambda x, axis: _wrapped(running(np.multiply, plain(x), axis)),
    np.cumulative_sum: lambda x, axis: _wrapped(running(np.add, plain(x), axis)),
    np.empty_like: _like(None),
    np.max: _reducing(np.maximum),
    np.mean: _pooling(mean),
    np.min: _reducing(np.minimum),
    np.ones_like: _like(1),
    np.prod: _reducing(np.multiply),
    np.reshape: _pooling(reshape),
    np.stack: _pooling(stack),
    np.sum: _reducing(np.add),
    np.tril: _triangle(True),
    np.triu: _triangle(False),
    np.where: _pooling(where),
    np.zeros_like: _like(0),
}


def _matmul(x1: Any, x2: Any) -> Any:
    if type(x1) is not ndarray or type(x2) is not ndarray:
        return _wrapped(matmul(plain(x1), plain(x2)))
    # 0.6 us less, and small networks call little else.
    out = matmul(x1, x2)
    return out if out.nbytes < pool.min_pooled else _wrapped(out)


def _where_nonzero(x: Any, by: Any) -> Any:
    if type(x) is Pooled and type(by) is Pooled:
        return around(where_nonzero(x._array, by._array))
    return _keep_where(x, by != 0)


_keep_where = _pooling(keep_where)


def _overwrite_where_nonzero(x: Any, by: Any) -> Any:
    if type(x) is Pooled and type(by) is Pooled and x._array.dtype == by._array.dtype:
        return around(where_nonzero(x._array, by._array, x._array))
    return _where_nonzero(x, by)


class Namespace:
    """NumPy as derivatives see it: what may grow out of small operands takes its memory from the pool too."""

    # Those of `tensor.autograd.recorded_functions` are: what they compute may be derived again.
    is_recorded = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        setattr(self, name, found)
        return found

    asarray = staticmethod(_as_array)
    keep_where = staticmethod(_keep_where)
    matmul = staticmethod(_matmul)
    spread = staticmethod(_pooling(spread))
    where = staticmethod(_pooling(where))
    where_nonzero = staticmethod(_where_nonzero)
    zeros = staticmethod(_pooling(zeros))


class Overwriting(Namespace):
    """The same, for functions whose first argument, a gradient, nobody will need any more."""

    # At 64x8096 140 us in place of 190, and no memory.
    where_nonzero = staticmethod(_overwrite_where_nonzero)


xp = Namespace()
xp_over = Overwriting()
