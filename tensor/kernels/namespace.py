"""``xp``: the NumPy namespace that derivatives use with plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final

import numpy as np

from tensor.kernels import elementwise as kernels
from tensor.kernels import special
from tensor.kernels.elementwise import SlopeKernel
from tensor.kernels.products import matrix_product
from tensor.kernels.scatter_add import scatter_add
from tensor.kernels.selecting import keep_where, overwrite_where_nonzero, where, where_nonzero

# Kernels that compute a gradient times a slope in one pass, for float32 and float64. The slope depends on one
# array.
_SLOPES: dict[str, SlopeKernel] = {
    "cube": kernels.cube_slope,
    "erf": kernels.erf_slope,
    "gelu": kernels.gelu_slope,
    "gelu_by_tanh": kernels.gelu_by_tanh_slope,
    "logsigmoid": kernels.logsigmoid_slope,
    "sigmoid": kernels.sigmoid_slope,
    "silu": kernels.silu_slope,
    "softplus": kernels.softplus_slope,
    "tanh": kernels.tanh_slope,
}

# Loaded on first use.
_ON_DEMAND = {
    "bessel_i": "tensor.kernels.bessel",
    "cross_entropy_backward": "tensor.kernels.reductions",
    "erfcx": "tensor.kernels.scaled_erfc",
    "log_softmax_backward": "tensor.kernels.reductions",
    "polygamma": "tensor.kernels.gamma",
    "softmax_backward": "tensor.kernels.reductions",
}


class Namespace:
    """NumPy's functions, and some functions of this library.

    `tensor.autograd.recorded_functions` is its counterpart for recorded gradients.
    """

    # True in the counterpart, whose results can be differentiated again.
    is_recorded = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(_ON_DEMAND[name]) if name in _ON_DEMAND else np, name)
        setattr(self, name, found)
        return found

    add: Final = kernels.add
    divide: Any = kernels.divide
    erf: Final = staticmethod(special.erf)
    exp: Final = kernels.exp
    log: Final = kernels.log
    matmul: Final = staticmethod(matrix_product)
    multiply: Any = kernels.multiply
    negative: Final = kernels.negative
    sigmoid: Final = staticmethod(special.sigmoid)
    sqrt: Final = kernels.sqrt
    square: Final = kernels.square
    subtract: Final = kernels.subtract
    tanh: Final = kernels.tanh
    scatter_add: Final = staticmethod(scatter_add)
    keep_where: Final = staticmethod(keep_where)
    pow: Final = kernels.power
    where: Final = staticmethod(where)
    where_nonzero: Callable[[Any, Any], Any] = staticmethod(where_nonzero)

    def slope(self, name: str, g: Any, x: Any, formula: Callable[..., Any]) -> Any:
        """Return ``formula(xp, g, x)``, the gradient times the slope `name`, in one pass if possible."""
        found = _SLOPES[name](g, x)
        return formula(self, g, x) if found is None else found

    def scaled_product(self, g: Any, number: Any, x: Any) -> Any:
        """Return g * (number * x), with the conjugate of the second factor if it is complex."""
        found = kernels.product_with_number(g, x, number) if type(number) in (int, float) else None
        return g * np.conj(number * x) if found is None else found


class Overwriting(Namespace):
    """The same namespace, but functions may overwrite their first argument, a gradient."""

    divide = kernels.divide.over
    multiply = kernels.multiply.over
    where_nonzero = staticmethod(overwrite_where_nonzero)

    def slope(self, name: str, g: Any, x: Any, formula: Callable[..., Any]) -> Any:
        """Return the result of ``Namespace.slope``, written over `g` if possible."""
        found = _SLOPES[name].over(g, x)
        return formula(self, g, x) if found is None else found

    def scaled_product(self, g: Any, number: Any, x: Any) -> Any:
        """Return the result of ``Namespace.scaled_product``, written over `g` if possible."""
        found = kernels.product_with_number.over(g, x, number) if type(number) in (int, float) else None
        return g * np.conj(number * x) if found is None else found


xp: Namespace = Namespace()
xp_over: Overwriting = Overwriting()
