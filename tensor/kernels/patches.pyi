from collections.abc import Sequence

from tensor._dtypes import Array
from tensor.kernels.convolution import Geometry

def gather_patches(x: Array, columns: Array, geometry: Geometry, top: int, outs: Sequence[int]) -> None: ...
def scatter_patches(x: Array, columns: Array, geometry: Geometry, top: int, outs: Sequence[int]) -> None: ...
