"""Creation of tensors from rules: ranges and the identity matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._devices import require_cpu
from tensor._dtypes import Array, DtypeLike, as_dtype, complex64, complex128, float32, float64
from tensor.creation.from_data import finish, shape_of
from tensor.kernels.running import run_kernel
from tensor.ops.data import cast

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_NUMBERS = frozenset({int, float})
_DEFAULTS = {float64: float32, complex128: complex64}


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return the numbers from `start` to `stop` (excluded) in steps of `step`. With one argument, start at 0.

    The default dtype is int64 for integers and float32 for floats.

    Examples
    --------
    >>> import tensor
    >>> tensor.arange(3).tolist(), tensor.arange(1, 2, 0.5).tolist()
    ([0, 1, 2], [1.0, 1.5])
    """
    if device is not None:
        require_cpu(device)
    first, last = (0, start) if stop is None else (start, stop)
    for x in (first, last, step):
        if (
            type(x) not in _NUMBERS
            and not isinstance(x, (int, float, np.number))
            and not hasattr(x, "__index__")
        ):
            raise TypeError(
                f"arange takes numbers, not {type(x).__name__}: write arange(stop) or arange(start, stop)"
            )
    if step == 0:
        raise ValueError(f"arange({first}, {last}, 0): step must not be 0, because it would never reach stop")
    return finish(run_kernel(_as, np.arange, (first, last, step), dtype), requires_grad)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    endpoint: bool = True,
    requires_grad: bool = False,
) -> Tensor:
    """Return `num` evenly spaced numbers from `start` to `stop`. Include `stop` if `endpoint`.

    Examples
    --------
    >>> import tensor
    >>> tensor.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if device is not None:
        require_cpu(device)
    if num < 0:
        raise ValueError(f"linspace: num must be at least 0, not {num}")
    return finish(run_kernel(_as, np.linspace, (start, stop, num, endpoint), dtype), requires_grad)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: DtypeLike | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return a matrix with ones on diagonal `k` and zeros elsewhere.

    Examples
    --------
    >>> import tensor
    >>> tensor.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if device is not None:
        require_cpu(device)
    wanted = float32 if dtype is None else as_dtype(dtype)
    rows, columns = shape_of((n_rows, n_rows if n_cols is None else n_cols))
    return finish(run_kernel(np.eye, rows, columns, k, wanted), requires_grad)


def _as(make: Callable[..., Array], arguments: tuple[Any, ...], dtype: DtypeLike | None) -> Array:
    """Return the result of `make`, cast to `dtype`. None: cast double precision to single precision."""
    array = make(*arguments)
    if dtype is not None:
        return cast(array, as_dtype(dtype))
    found = _DEFAULTS.get(array.dtype)
    return array if found is None else cast(array, found)
