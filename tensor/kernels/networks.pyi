from collections.abc import Sequence
from typing import Self, final

from tensor._dtypes import Array
from tensor.kernels.geometry import Geometry

@final
class PaddedInput:
    def __new__(
        cls, x: Array, geometry: Geometry, outs: tuple[int, ...], samples: int, rows: int
    ) -> Self: ...
    def fill(self, sample: int, samples: int, top: int, rows: int) -> None: ...
    def add_up(self, weight: PackedWeight, bias: Array | None, out: Array) -> None: ...
    def add_weights(self, y: Array, out: Array) -> None: ...

@final
class PackedWeight:
    def __new__(cls, weight: Array, groups: int) -> Self: ...

def weight_channels(channels: int, itemsize: int) -> int: ...
def gather_patches(x: Array, columns: Array, geometry: Geometry, top: int, outs: Sequence[int]) -> None: ...
def scatter_patches(x: Array, columns: Array, geometry: Geometry, top: int, outs: Sequence[int]) -> None: ...
def largest_of_windows(
    x: Array, windows: Sequence[tuple[Array, Array, int]], with_places: bool
) -> tuple[Array, Array | None]: ...
def take_places(x: Array, places: Array) -> Array: ...
def add_at_places(x: Array, places: Array, sizes: Sequence[int]) -> Array: ...
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
