"""Elementwise functions of neural networks, with PyTorch's names and arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor import _special
from tensor._derivatives import RULES
from tensor._dispatch import apply
from tensor._elementwise import _unary

if TYPE_CHECKING:
    from tensor._storage import Array
    from tensor._tensor import Tensor

_ROOT_2 = math.sqrt(2)
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)


def _relu(x: Any) -> Any:
    return np.maximum(x, 0)


relu = _unary("relu", _relu, "Return the larger of `x` and 0.", "[-1.0, 2.0]", "[0.0, 2.0]")
sigmoid = _unary("sigmoid", _special.sigmoid, "Return 1 / (1 + exp(-x)).", "[0.0]", "[0.5]")
logsigmoid = _unary(
    "logsigmoid", _special.logsigmoid, "Return log(sigmoid(x)) without overflow.", "[1000.0]", "[-0.0]"
)
erf = _unary("erf", _special.erf, "Return the error function.", "[0.0]", "[0.0]")
erfc = _unary("erfc", _special.erfc, "Return 1 - erf(x), precise for large `x`.", "[0.0]", "[1.0]")


def leaky_relu(x: Tensor, /, negative_slope: float = 0.01) -> Tensor:
    """Return `x` where it is positive, else `negative_slope` * x.

    Examples
    --------
    >>> import tensor
    >>> tensor.leaky_relu(tensor.tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    return apply(
        RULES["leaky_relu"],
        lambda array: np.where(array > 0, array, array * negative_slope),
        (x,),
        slope=negative_slope,
    )


def elu(x: Tensor, /, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else `alpha` * (exp(x) - 1).

    Examples
    --------
    >>> import tensor
    >>> tensor.elu(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return apply(
        RULES["elu"],
        lambda array: np.where(array > 0, array, alpha * np.expm1(np.minimum(array, 0))),
        (x,),
        alpha=alpha,
    )


def silu(x: Tensor, /) -> Tensor:
    """Return x * sigmoid(x).

    Examples
    --------
    >>> import tensor
    >>> tensor.silu(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    x._raise_if_disposed()
    gate = _special.sigmoid(x._array)  # type: ignore[arg-type]  # not empty
    return apply(RULES["silu"], lambda array: array * gate, (x,), gate=gate)


def softplus(x: Tensor, /, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta; `x` itself where beta * x exceeds `threshold`.

    Examples
    --------
    >>> import tensor
    >>> tensor.softplus(tensor.tensor([100.0])).tolist()
    [100.0]
    """
    x._raise_if_disposed()
    array: Any = x._array
    slope: Any = None
    if x.requires_grad:
        slope = np.where(array * beta > threshold, 1, _special.sigmoid(array * beta))
    return apply(
        RULES["softplus"],
        lambda array: np.where(array * beta > threshold, array, _special.softplus(array * beta) / beta),
        (x,),
        slope=slope,
    )


def gelu(x: Tensor, /, approximate: str = "none") -> Tensor:
    """Return x times the normal distribution's function at `x` (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    x
        A floating tensor.
    approximate
        ``"none"`` by the error function, ``"tanh"`` by the paper's approximation.

    Examples
    --------
    >>> import tensor
    >>> tensor.gelu(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    value, slope = (_gelu_by_erf if approximate == "none" else _gelu_by_tanh)(x, x.requires_grad)
    return apply(RULES["gelu"], lambda _: value, (x,), slope=slope)


def _gelu_by_erf(x: Tensor, wants_slope: bool) -> tuple[Array, Any]:
    array = np.asarray(x._array)
    half = array.dtype.type(0.5)
    probability = half * (1 + _special.erf(array * array.dtype.type(1 / _ROOT_2)))
    if not wants_slope:
        return array * probability, None
    density = np.exp(-half * array * array) * array.dtype.type(1 / math.sqrt(2 * math.pi))
    return array * probability, probability + array * density


def _gelu_by_tanh(x: Tensor, wants_slope: bool) -> tuple[Array, Any]:
    array = np.asarray(x._array)
    inner = _ROOT_2_OVER_PI * (array + 0.044715 * array**3)
    gate = 0.5 * (1 + np.tanh(inner))
    if not wants_slope:
        return array * gate, None
    slope = gate + array * 2 * gate * (1 - gate) * _ROOT_2_OVER_PI * (1 + 3 * 0.044715 * array**2)
    return array * gate, slope
