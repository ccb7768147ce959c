"""Conversions of tensors to other dtypes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor._devices import require_cpu
from tensor._dtypes import (
    DtypeLike,
    as_dtype,
)
from tensor._errors import shown
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor, cast
from tensor.ops.dispatch import apply_as_is
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


# The types of devices in PyTorch. Only the first one is supported.
_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu", "xla", "mtia", "meta")


_ASTYPE = RULES["astype"]


def astype(x: Tensor, dtype: DtypeLike, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """Return the values of `x` as `dtype`. With ``copy=False``, return `x` itself if it has that dtype.

    A copy of the same dtype shares memory until the first write to either tensor. A conversion to a real
    dtype drops imaginary parts.

    Examples
    --------
    >>> import tensor
    >>> tensor.astype(tensor.tensor([1.5, -2.5]), "int64").tolist()
    [1, -2]
    """
    require_cpu(device)
    x = as_tensor(x)
    wanted = as_dtype(dtype)
    if x.dtype == wanted:
        return x.clone() if copy else x
    return apply_as_is(_ASTYPE, lambda a: cast(a, wanted), (x,))


def dtype_asked(
    target: DtypeLike | TensorCore | None, dtype: DtypeLike | None, device: str | None
) -> DtypeLike | None:
    """Return the dtype in the arguments of ``to()``, or None. Raise an error if the device is not the CPU."""
    if isinstance(target, str) and target.partition(":")[0] in _DEVICES:
        target, device = None, target
    require_cpu(device)
    if target is not None and dtype is not None:
        raise TypeError("to() takes one dtype: write x.to(dtype), or x.to(device, dtype)")
    wanted = dtype if target is None else target
    if isinstance(target, str) and not _names_dtype(target):
        raise TypeError(
            f"to() takes a dtype or a device, but {shown(target)} is neither: write x.to(tensor.float64) or "
            "x.to('float64'); the one device is 'cpu'"
        )
    return as_tensor(wanted).dtype if isinstance(wanted, TensorCore) else wanted


def _names_dtype(name: str) -> bool:
    try:
        as_dtype(name)
    except TypeError:
        return False
    return True
