"""Tensors on NumPy with deterministic lifetimes and autograd."""

from tensor._core import Handle
from tensor._creation import from_numpy, full, ones, tensor, zeros
from tensor._elementwise import add, divide, exp, multiply, subtract
from tensor._errors import TensorDisposedError
from tensor._graph import enable_grad, no_grad, set_grad_enabled
from tensor._graph import is_recording as is_grad_enabled
from tensor._tensor import Tensor

__all__ = [
    "Handle",
    "Tensor",
    "TensorDisposedError",
    "add",
    "divide",
    "enable_grad",
    "exp",
    "from_numpy",
    "full",
    "is_grad_enabled",
    "multiply",
    "no_grad",
    "ones",
    "set_grad_enabled",
    "subtract",
    "tensor",
    "zeros",
]
