from collections.abc import Sequence

from tensor._dtypes import Array

def recurrent_forward(
    cell: str,
    sizes: tuple[int, ...],
    is_reversed: bool,
    x: Array,
    h0: Array | None,
    c0: Array | None,
    w_ih: Array,
    w_hh: Array,
    w_hr: Array | None,
    b_ih: Array | None,
    b_hh: Array | None,
) -> tuple[Array, Array, Array | None, tuple[Array | None, ...]]: ...
def recurrent_backward(
    cell: str,
    sizes: tuple[int, ...],
    is_reversed: bool,
    wanted: Sequence[bool],
    x: Array,
    h0: Array | None,
    c0: Array | None,
    w_ih: Array,
    w_hh: Array,
    w_hr: Array | None,
    out: Array,
    kept: Sequence[Array | None],
    d_out: Array | None,
    d_h: Array | None,
    d_c: Array | None,
) -> tuple[Array | None, ...]: ...
