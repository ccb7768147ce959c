from collections.abc import Sequence

from tensor._dtypes import Array

def attention_forward(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    is_causal: bool,
    scale: float,
    seed: int,
    p: float,
) -> tuple[Array, Array]: ...
def attention_backward(
    g: Array,
    wanted: Sequence[bool],
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    is_causal: bool,
    scale: float,
    seed: int,
    p: float,
    out: Array,
    logsumexp: Array,
) -> tuple[Array | None, Array | None, Array | None]: ...
def attention_kept(shape: Sequence[int], seed: int, p: float) -> Array: ...
