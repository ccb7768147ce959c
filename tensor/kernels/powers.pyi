from typing import Any, final

from tensor._dtypes import Array
from tensor.kernels.elementwise import SlopeKernel

@final
class PowerKernel:
    def __call__(self, x: Any, n: Any, out: Array | None = None) -> Any: ...

power: PowerKernel
cube_slope: SlopeKernel
product_with_number: SlopeKernel
