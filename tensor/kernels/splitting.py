"""Elementwise work on large arrays, in pieces for several threads: what is cut, and from which size on."""

from __future__ import annotations

from sys import maxsize
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor.kernels import threads as _threads
from tensor.kernels.masks import keep_nonzero, keep_true
from tensor.kernels.pieces import in_pieces, threads
from tensor.kernels.ufuncs import dtype_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor._dtypes import Array

ndarray = np.ndarray
# What takes some 0.3 ns for a float, and waits for memory.
_CHEAP = (
    "absolute add bitwise_and bitwise_or bitwise_xor ceil conjugate copysign divide equal floor greater "
    "greater_equal invert isfinite isinf isnan left_shift less less_equal logical_and logical_not logical_or "
    "logical_xor maximum minimum multiply negative not_equal positive reciprocal right_shift rint sign "
    "signbit sqrt square subtract trunc copyto where"
)
# What takes 1.2 to 2.6 ns; all other ufuncs take 5 to 20.
_DEAR = "cos exp exp2 log log2 sin tanh"
_COSTS: dict[Any, str] = {getattr(np, name): "cheap" for name in _CHEAP.split()}
_COSTS.update({getattr(np, name): "dear" for name in _DEAR.split()})
_COSTS[keep_nonzero] = _COSTS[keep_true] = "cheap"


def cost_of(function: Callable[..., Any]) -> str:
    """Return what a ufunc, or another function, costs for each element: cheap, dear or dearest."""
    return _COSTS.get(function, "dearest")


class _Least(dict[Any, int]):
    """From how many bytes of an array on several threads do what a ufunc, or another function, does.

    A second thread costs some 30 us, and more where the system has let it sleep. Measured on two cores: from
    these sizes on two threads take at most 0.8 of the time of one.
    """

    __slots__ = ("by_cost",)

    def __init__(self) -> None:
        self.by_cost = {"cheap": 6 * 2**20, "dear": 2**19, "dearest": 2**17}

    def __missing__(self, ufunc: Callable[..., Any]) -> int:
        found = maxsize if threads.count == 1 else self.by_cost[cost_of(ufunc)]
        self[ufunc] = found
        return found


least = _Least()


def split(
    function: Callable[..., Any],
    operands: Sequence[Any],
    out: Array,
    *,
    alone: bool = False,
    at_once: int = 0,
) -> Array:
    """Compute ``function(*operands, out=out)``, an elementwise one, on several threads if it can be cut.

    No operand may share memory with `out`, but one that is `out` itself. With `at_once`, `function` gets
    about as many elements in one call; ``alone`` leaves all to the caller.
    """
    arrays = [x for x in operands if type(x) is ndarray and x.ndim]
    shape = out.shape
    if out.flags.c_contiguous and all(x.shape == shape and x.flags.c_contiguous for x in arrays):
        target = out.reshape(-1)
        parts = [x.reshape(-1) if type(x) is ndarray and x.ndim else x for x in operands]
    else:
        axis = _slowest_axis(out)
        if axis is None or not all(_fits(x, shape) for x in arrays):
            function(*operands, out=out)
            return out
        target = np.moveaxis(out, axis, 0)
        parts = [_along(x, axis, out.ndim) if type(x) is ndarray else x for x in operands]
    size = len(target)
    is_cut = [type(x) is ndarray and x.ndim == target.ndim and len(x) == size for x in parts]

    def run(start: int, end: int) -> None:
        given = [x[start:end] if cut else x for x, cut in zip(parts, is_cut, strict=True)]
        function(*given, out=target[start:end])

    def run_by_parts(start: int, end: int) -> None:
        step = max(at_once * size // out.size, 1)
        for i in range(start, end, step):
            run(i, min(i + step, end))

    whole = run_by_parts if at_once else run
    if alone:
        whole(0, size)
    else:
        in_pieces(whole, size, step_for(size))
    return out


def step_for(size: int) -> int:
    """Return how long pieces are: two for each thread.

    With more pieces threads wait for each other, for one of two the slower thread is waited for.
    """
    step = -(-size // (2 * threads.count))
    # From line to line of the cache, so that no two threads write to one.
    return step if step < 1024 else (step + 63) & -64


def split_in_place(ufunc: Callable[..., Any], operands: Sequence[Any], out: Array) -> Array:
    """Return ``ufunc(*operands, out=out)``, computed by several threads where `out` is large.

    `out` may be one of the operands.
    """
    if out.nbytes < least[ufunc] or not all(
        x is out or type(x) is not ndarray or not np.may_share_memory(x, out) for x in operands
    ):
        return ufunc(*operands, out=out)  # type: ignore[no-any-return]
    return split(ufunc, operands, out)


# Plain copies are worth several threads from so many times the size on: of 8 MB one takes 0.9 ms, and two
# take 1.2; of 80 MB 11.7 and 9.0.
_PLAIN = 3


def copy_values(array: Array, out: Array) -> Array:
    """Write the values of `array`, of any dtype, to `out`, and return `out`."""
    size = least[np.copyto] * (_PLAIN if array.dtype == out.dtype else 1)
    if out.nbytes < size and array.nbytes < size:
        np.copyto(out, array, casting="unsafe")
        return out
    return split(_copy, (array,), out)


def _copy(array: Array, *, out: Array) -> None:
    np.copyto(out, array, casting="unsafe")


def _slowest_axis(out: Array) -> int | None:
    """Return the axis along which pieces lie farthest apart; None when it is too short to be cut."""
    axis = max(range(out.ndim), key=lambda i: (abs(out.strides[i]) * (out.shape[i] > 1), -i), default=None)
    return None if axis is None or out.shape[axis] < 2 * threads.count else axis


def _fits(x: Array, shape: tuple[int, ...]) -> bool:
    given = x.shape
    return len(given) <= len(shape) and all(
        n in (1, m) for n, m in zip(given, shape[len(shape) - len(given) :], strict=True)
    )


def _along(x: Array, axis: int, ndim: int) -> Array:
    """Return `x` with as many dimensions as the result, the one that is cut first."""
    return np.moveaxis(x.reshape((1,) * (ndim - x.ndim) + x.shape), axis, 0)


def configure_threads(
    *, cheap: int | None = None, dear: int | None = None, dearest: int | None = None
) -> None:
    """Set from how many bytes of an array on several threads work on it.

    `cheap` is for what takes less than a nanosecond an element (additions, comparisons, copies; at first
    6 MiB), `dear` for a few nanoseconds (exp, log, tanh; 512 KiB), `dearest` for all else (128 KiB). What
    is not given stays.

    Examples
    --------
    >>> from tensor.lowlevel import configure_threads
    >>> configure_threads(cheap=2**23)
    >>> configure_threads(cheap=6 * 2**20)  # as it was
    """
    for cost, nbytes in (("cheap", cheap), ("dear", dear), ("dearest", dearest)):
        if nbytes is not None:
            if nbytes < 0:
                raise ValueError(f"configure_threads: {cost} is a number of bytes, not {nbytes!r}")
            least.by_cost[cost] = nbytes
    least.clear()


def set_num_threads(n: int) -> None:
    """Let `n` threads compute on large arrays, 1 to 256; 1 leaves all to the thread that asks."""
    _threads.set_num_threads(n)
    least.clear()


def on_threads(ufunc: np.ufunc, *operands: Any) -> Any:
    """Return ``ufunc(*operands)``, computed by several threads; by one where they can't cut the work."""
    arrays = [x for x in operands if type(x) is ndarray]
    dtype = dtype_of(ufunc, *operands)
    if dtype is None:
        return ufunc(*operands)
    first = arrays[0]
    if all(x.shape == first.shape and x.strides == first.strides for x in arrays) and 0 not in first.strides:
        out = np.empty_like(first, dtype)
    elif all(x.flags.c_contiguous for x in arrays):
        try:
            out = np.empty(np.broadcast_shapes(*[x.shape for x in arrays]), dtype)
        except ValueError:
            return ufunc(*operands)  # which says what does not fit
    else:
        return ufunc(*operands)
    return split(ufunc, operands, out)
