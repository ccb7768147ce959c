from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from typing_extensions import Buffer

from tensor._dtypes import DtypeLike
from tensor._tensor import Tensor
from tensor.core.dims import Sizes

def from_blob(
    buffer: Buffer | np.ndarray[Any, Any],
    shape: Sizes,
    dtype: DtypeLike,
    *,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    on_release: Callable[[], object] | None = None,
    device: str | None = None,
) -> Tensor: ...
def from_address(
    address: int,
    shape: Sizes,
    dtype: DtypeLike,
    *,
    strides: Sequence[int] | None = None,
    owner: object = None,
    on_release: Callable[[], object] | None = None,
) -> Tensor: ...
