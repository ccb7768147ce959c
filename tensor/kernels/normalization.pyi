from collections.abc import Sequence
from typing import Any

from tensor._dtypes import Array

def as_one_dtype(*arrays: Array | None) -> Sequence[Any]: ...
def inverses_of(variances: Array, eps: float) -> Array: ...
def blend(running: Array, new: Array, momentum: float, factor: float) -> None: ...
def normalize_rows(
    x: Array, count: int, weight: Array | None, bias: Array | None, eps: float, is_centred: bool
) -> tuple[Array, Array | None, Array]: ...
def normalize_rows_backward(
    g: Array,
    x: Array,
    count: int,
    weight: Array | None,
    means: Array | None,
    inverses: Array,
    wants_x: bool,
    wants_weight: bool,
    wants_bias: bool,
    may_overwrite: bool = False,
) -> tuple[Array | None, Array | None, Array | None]: ...
def moments_of_channels(x: Array) -> tuple[Array, Array]: ...
def normalize_channels(
    x: Array, means: Array, inverses: Array, weight: Array | None, bias: Array | None
) -> Array: ...
def normalize_channels_backward(
    g: Array,
    x: Array,
    weight: Array | None,
    means: Array,
    inverses: Array,
    are_own: bool,
    wants_x: bool,
    wants_weight: bool,
    wants_bias: bool,
    may_overwrite: bool = False,
) -> tuple[Array | None, Array | None, Array | None]: ...
