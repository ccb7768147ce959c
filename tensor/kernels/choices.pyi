from tensor._dtypes import Array
from tensor.kernels.elementwise import BinaryKernel

keep_nonzero: BinaryKernel

def choose(condition: Array, a: Array, b: Array) -> Array | None: ...
