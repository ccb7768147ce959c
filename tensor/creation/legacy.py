"""Calls of PyTorch's tensor classes, such as ``torch.FloatTensor(2, 3)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor._dtypes import Dtype
from tensor.core.tensor import TensorCore
from tensor.creation.from_data import empty, tensor

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def legacy_tensor(given: tuple[object, ...], dtype: Dtype) -> Tensor:
    """Return the result of ``torch.Tensor(*given)``: integers are sizes, other arguments are data."""
    sizes = [n for n in given if isinstance(n, int) and not isinstance(n, bool)]
    if len(sizes) == len(given):
        return empty(tuple(sizes) or (0,), dtype=dtype)
    if len(given) != 1:
        raise TypeError(
            "Tensor takes sizes, Tensor(2, 3), or data in one list or array: write tensor.tensor([1.0, 2.0])"
        )
    data = given[0]
    return tensor(data.detach() if isinstance(data, TensorCore) else data).to(dtype)  # type: ignore[attr-defined]
