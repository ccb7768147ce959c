"""Softmax, its logarithm, and the logarithm of a sum of exponentials, of plain arrays.

Large arrays are cut between rows for several threads; no bit of what comes out depends on the cut.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import float16, float32
from tensor.kernels.pieces import in_pieces
from tensor.kernels.splitting import least, step_for
from tensor.memory.allocator import empty

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._dtypes import Array

    # Takes the axis, an array, and where to write: None for new memory.
    Kernel = Callable[[int, Array, Array | None], Array]

_add_reduce: Callable[..., Any] = np.add.reduce
_maximum_reduce: Callable[..., Any] = np.maximum.reduce
# Bytes from which on rows go to several threads, and sums by parts.
_LARGE = 1 << 19
# Five steps instead of one: threads that wait for the interpreter between them gain nothing at 1 MiB.
_STEPS = 4


def softmax(a: Array, axis: int) -> Any:
    """Return exp(a) over its sum along `axis`, in float32 for integers."""
    return _in_shape(_softmax, a, axis)


def log_softmax(a: Array, axis: int) -> Any:
    """Return the logarithm of ``softmax``."""
    return _in_shape(_log_softmax, a, axis)


def logsumexp(a: Array, axis: Any, keepdims: bool) -> Any:
    """Return log(sum(exp(a))) over `axis`, an int, several, or None for all."""
    dtype = a.dtype
    if dtype.kind in "biu" or dtype == float16:
        a = a.astype(float32)
    if not a.ndim:
        out = _logsumexp(a.reshape(1), None, None).reshape(())
    elif a.nbytes < _LARGE or not isinstance(axis, int) or a.dtype.kind != "f":
        out = _logsumexp(a, axis, None)
    else:
        out = empty((*a.shape[:axis], 1, *a.shape[axis + 1 :]), a.dtype)
        _by_rows(_write_logsumexp, axis, a, empty(a.shape, a.dtype, a), out)
    if dtype == float16:
        out = out.astype(float16)
    return out if keepdims else out.reshape(()) if axis is None else out.squeeze(axis)


def _in_shape(kernel: Kernel, a: Array, axis: int) -> Array:
    """Return what `kernel` makes of `a`, in its shape; of float16 in float16."""
    kind = a.dtype.kind
    if kind == "f" and a.nbytes < _LARGE and a.dtype != float16:
        return kernel(axis, a, None)
    if kind == "c":
        raise TypeError("complex numbers have no order; take .real or .abs() first")
    if kind == "f" and a.dtype != float16:
        x, out = a, empty(a.shape, a.dtype, a)
    else:
        x = out = a.astype(float32)
    _by_rows(kernel, axis, x, out)
    return out.astype(float16) if a.dtype == float16 else out


def _by_rows(kernel: Callable[..., object], axis: int, *arrays: Array) -> None:
    """Let several threads do what ``kernel(axis, *arrays)`` does, where they are large and can be cut."""
    if not all(x.flags.c_contiguous for x in arrays):
        kernel(axis, *arrays)
        return
    x = arrays[0]
    before, behind = prod(x.shape[:axis]), prod(x.shape[axis + 1 :])
    form = () if behind == 1 else (behind,)
    flat = [y.reshape(before, y.shape[axis], *form) for y in arrays]
    if x.nbytes < _STEPS * least[np.exp]:
        kernel(1, *flat)
        return

    def run(start: int, end: int) -> None:
        kernel(1, *[y[start:end] for y in flat])

    in_pieces(run, before, step_for(before))


def _softmax(axis: int, x: Array, out: Array | None) -> Array:
    exps = _from_top(x, axis, out)
    np.exp(exps, exps)
    return np.divide(exps, _sums(exps, axis, out is None), exps)


def _log_softmax(axis: int, x: Array, out: Array | None) -> Array:
    logs = _from_top(x, axis, out)
    if not logs.size:  # the logarithm of an empty sum is no news
        return logs
    exps = np.exp(logs, None if out is None else empty(out.shape, out.dtype, out))
    return np.subtract(logs, np.log(_sums(exps, axis, out is None)), logs)


def _from_top(x: Array, axis: int, out: Array | None) -> Array:
    top = _top(x, axis)
    return np.subtract(x, top, out)  # an infinity less itself is nan


def _write_logsumexp(axis: int, x: Array, scratch: Array, out: Array) -> None:
    out[...] = _logsumexp(x, axis, scratch)


def _logsumexp(x: Array, axis: Any, scratch: Array | None) -> Array:
    top = _top(x.real if x.dtype.kind == "c" else x, axis)
    is_finite = bool(np.isfinite(top).all())
    if not is_finite:
        top = np.where(np.isfinite(top), top, 0)
    exps = np.subtract(x, top, scratch)
    sums = _sums(np.exp(exps, exps), axis, scratch is None and x.nbytes < _LARGE)
    return np.log(sums) + top


def _top(x: Array, axis: Any) -> Array:
    """Return the largest along `axis`, kept as a dimension of one."""
    shape = x.shape
    # NumPy goes through short rows one by one: 2.8 us instead of 4.8 for 64 of 10, 8 for 41 for 1,000 of 10.
    if axis == len(shape) - 1 and 0 < (n := shape[-1]) <= 32 and x.size >= 8 * n:
        rows = x.reshape(-1, n).T
        return _maximum_reduce(rows.copy(), 0).reshape(*shape[:-1], 1)  # type: ignore[no-any-return]
    return _maximum_reduce(x, axis, None, None, True, -inf)  # type: ignore[no-any-return]


def _sums(x: Array, axis: Any, is_whole: bool) -> Array:
    """Return the sums along `axis`, kept as a dimension of one."""
    if axis == x.ndim - 1 and x.dtype.kind == "f":
        n = x.shape[-1]
        # A product with ones takes 0.9 us instead of 2.9 for 64 of 10. With a row's place among others the
        # last bit may change, so parts are left to `einsum`: 35 us instead of 146 for 6,000 of 10.
        if is_whole and n <= 128:
            return x.dot(_ones(n, x.dtype))[..., None]  # type: ignore[no-any-return]
        # Up to here its longest chain of additions is no longer than that of `add.reduce`.
        if n <= 256:
            return np.einsum("...i->...", x)[..., None]  # type: ignore[no-any-return]
    return _add_reduce(x, axis, None, None, True)  # type: ignore[no-any-return]


@lru_cache(maxsize=16)
def _ones(n: int, dtype: np.dtype[Any]) -> Array:
    return np.ones(n, dtype)
