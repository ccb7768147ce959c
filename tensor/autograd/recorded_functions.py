"""The functions for recorded derivatives: the functions of `tensor`, under NumPy's names."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensor.creation import from_data, ranges
from tensor.kernels.scatter_add import scatter_add
from tensor.ops import (
    elementwise,
    expanding,
    fourier,
    gamma,
    joining,
    linalg,
    moving,
    reductions,
    scans,
    shapes,
    solving,
)
from tensor.ops.casts import astype
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply
from tensor.ops.einsum import einsum
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def _asarray(x: Any, dtype: Any = None, copy: bool | None = None) -> Any:
    made = as_tensor(x)
    if dtype is not None and made.dtype != dtype:
        return astype(made, dtype)
    return made.clone() if copy else made


def _einsum(equation: str, *factors: Any, optimize: bool = False) -> Tensor:
    del optimize  # tensors always use the best order
    return einsum(equation, *factors)


def _real(x: Any) -> Any:
    return x.real if x.dtype.kind == "c" else x


def _imag(x: Any) -> Any:
    return x.imag


def _scatter_add(values: Tensor, key: tuple[Any, ...], shape: tuple[int, ...]) -> Tensor:
    return apply(RULES["scatter_add"], lambda array: scatter_add(array, key, shape), (values,), key=key)


def _keep_where(x: Any, mask: Any) -> Any:
    return elementwise.where(mask, x, 0)


def _where_nonzero(x: Any, by: Any) -> Any:
    return _keep_where(x, by != 0)


def _slope(name: str, g: Any, x: Any, formula: Callable[..., Any]) -> Any:
    del name
    return formula(Functions, g, x)


def _scaled_product(g: Any, number: Any, x: Any) -> Any:
    product = number * x
    return g * (product.conj() if product.dtype.kind == "c" else product)


# The functions with the name of a function of `tensor`.
_SAME: Final = {
    elementwise: (
        "abs conj copysign cos cosh divide erf exp expm1 floor_divide isnan log log1p logaddexp maximum "
        "minimum multiply negative pow sigmoid sign sin sinh sqrt square tanh where"
    ),
    expanding: "broadcast_to",
    from_data: "ones ones_like zeros zeros_like",
    gamma: "bessel_i erfcx polygamma",
    joining: "concat stack",
    linalg: "matmul",
    moving: "flip roll tril triu",
    ranges: "arange eye",
    reductions: "any max mean min prod sum",
    scans: "cumulative_prod cumulative_sum softmax",
    shapes: "expand_dims matrix_transpose permute_dims reshape",
}

# The functions of the array API standard that derivatives use, and a few more.
Functions: Any = SimpleNamespace(
    is_recorded=True,
    **{name: getattr(module, name) for module, names in _SAME.items() for name in names.split()},
    asarray=_asarray,
    astype=astype,
    einsum=_einsum,
    fft=fourier,
    int64=np.int64,
    linalg=solving,  # the functions of numpy.linalg that derivatives use
    keep_where=_keep_where,
    imag=_imag,
    real=_real,
    scaled_product=_scaled_product,
    scatter_add=_scatter_add,
    slope=_slope,
    where_nonzero=_where_nonzero,
)
