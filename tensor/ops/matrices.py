"""Methods of matrices: sums with products, diagonals, flips, and conjugate transposes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor._dtypes import result_type
from tensor.core.tensor import TensorCore, last_use
from tensor.ops import elementwise as f
from tensor.ops.data import as_tensor
from tensor.ops.scaling import cast, scaled, wide_dtype

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def plus_product(x: TensorCore, product: Tensor, beta: float, alpha: float) -> Tensor:
    """Return ``beta * x + alpha * product``. For integers the factors are truncated."""
    dtype = result_type(x, product)
    wide = wide_dtype(dtype)
    addend = as_tensor(scaled(product, alpha, wide))
    if beta == 0:  # ignore the values of the tensor, even nan
        return cast(addend, product.dtype)
    return cast(f.add(last_use(x) if beta == 1 else scaled(last_use(x), beta, wide), addend), dtype)
