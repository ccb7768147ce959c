from typing import Any, final

import numpy as np

from tensor._dtypes import Array

@final
class PooledUfunc:
    def __init__(self, ufunc: np.ufunc, *, least_bytes: int = ..., bytes_in_piece: int = ...) -> None: ...
    def __call__(self, *operands: Any, out: Array | None = None) -> Any: ...
