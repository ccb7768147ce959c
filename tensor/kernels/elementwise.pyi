from collections.abc import Callable
from typing import Any, final

import numpy as np

from tensor._dtypes import Array

@final
class UnaryKernel:
    @property
    def plain(self) -> Callable[..., Any]: ...
    def __call__(self, x: Any, out: Array | None = None) -> Any: ...

@final
class BinaryKernel:
    @property
    def plain(self) -> Callable[..., Any]: ...
    def __call__(self, a: Any, b: Any, out: Array | None = None) -> Any: ...
    def over(self, a: Any, b: Any) -> Any: ...

@final
class SlopeKernel:
    def __call__(self, g: Any, x: Any, number: float = 0.0) -> Array | None: ...
    def over(self, g: Any, x: Any, number: float = 0.0) -> Array | None: ...

add: BinaryKernel
subtract: BinaryKernel
multiply: BinaryKernel
divide: BinaryKernel
maximum: BinaryKernel
minimum: BinaryKernel
negative: UnaryKernel
absolute: UnaryKernel
square: UnaryKernel
sqrt: UnaryKernel
reciprocal: UnaryKernel
reciprocal_root: UnaryKernel
relu: UnaryKernel
hardsigmoid: UnaryKernel
hardswish: UnaryKernel

exp: UnaryKernel
log: UnaryKernel
tanh: UnaryKernel
sigmoid: UnaryKernel
silu: UnaryKernel
softplus: UnaryKernel
logsigmoid: UnaryKernel
tanh_slope: SlopeKernel
sigmoid_slope: SlopeKernel
silu_slope: SlopeKernel
softplus_slope: SlopeKernel
logsigmoid_slope: SlopeKernel

erf: UnaryKernel
erfc: UnaryKernel
gelu: UnaryKernel
gelu_by_tanh: UnaryKernel
erf_slope: SlopeKernel
gelu_slope: SlopeKernel
gelu_by_tanh_slope: SlopeKernel

@final
class PowerKernel:
    def __call__(self, x: Any, n: Any, out: Array | None = None) -> Any: ...

power: PowerKernel
cube_slope: SlopeKernel
product_with_number: SlopeKernel

keep_nonzero_ufunc: np.ufunc
keep_true: np.ufunc

def conjugate(x: Array) -> Any: ...
def expm1(x: Array) -> Any: ...
def log1p(x: Array) -> Any: ...
def sign(x: Array) -> Any: ...
def floor_divide(x1: Any, x2: Any, out: Array | None = None) -> Any: ...
def corrected_tanh(x: Array) -> Any: ...

keep_nonzero: BinaryKernel

def choose(condition: Array, a: Array, b: Array) -> Array | None: ...
