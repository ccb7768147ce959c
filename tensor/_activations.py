"""Elementwise functions of neural networks, with PyTorch's names and arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor import _special
from tensor._data import as_data
from tensor._derivatives import RULES
from tensor._dispatch import apply, foreign, operand
from tensor._elementwise import _unary
from tensor._pooled import enter, leave

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


def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Tensor:
    """Return `x` where it is positive, else `negative_slope` * x.

    Examples
    --------
    >>> import tensor
    >>> tensor.leaky_relu(tensor.tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    array = _operand("leaky_relu", x)
    out = np.where(array > 0, array, array * negative_slope)
    return apply(RULES["leaky_relu"], lambda _: leave(out), (x,), slope=negative_slope)


def elu(x: Any, /, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else `alpha` * (exp(x) - 1).

    Examples
    --------
    >>> import tensor
    >>> tensor.elu(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    array = _operand("elu", x)
    out = np.where(array > 0, array, alpha * np.expm1(np.minimum(array, 0)))
    return apply(RULES["elu"], lambda _: leave(out), (x,), alpha=alpha)


def silu(x: Any, /) -> Tensor:
    """Return x * sigmoid(x).

    Examples
    --------
    >>> import tensor
    >>> tensor.silu(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    array = _operand("silu", x)
    gate = _special.sigmoid(array)
    with np.errstate(invalid="ignore"):
        out = array * gate
    return apply(RULES["silu"], lambda _: leave(out), (x,), gate=leave(gate))


def softplus(x: Any, /, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta; `x` itself where beta * x exceeds `threshold`.

    Examples
    --------
    >>> import tensor
    >>> tensor.softplus(tensor.tensor([100.0])).tolist()
    [100.0]
    """
    array = _operand("softplus", x)
    scaled = array * beta
    is_linear = scaled > threshold
    out = np.where(is_linear, array, _special.softplus(scaled) / beta)
    slope = np.where(is_linear, np.ones_like(scaled), _special.sigmoid(scaled)) if _has_history(x) else None
    return apply(RULES["softplus"], lambda _: leave(out), (x,), slope=leave(slope))


def gelu(x: Any, /, approximate: str = "none") -> Tensor:
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
    array = _operand("gelu", x)
    kernel = _gelu_by_erf if approximate == "none" else _gelu_by_tanh
    # Squares and cubes may overflow where the result has long been `x` or 0.
    with np.errstate(over="ignore", invalid="ignore"):
        value, slope = kernel(array, _has_history(x))
    return apply(RULES["gelu"], lambda _: leave(value), (x,), slope=leave(slope))


def _gelu_by_erf(x: Array, wants_slope: bool) -> tuple[Array, Any]:
    probability = 0.5 * (1 + _special.erf(x * (1 / _ROOT_2)))
    if not wants_slope:
        return x * probability, None
    density = np.exp(-0.5 * x * x) * (1 / math.sqrt(2 * math.pi))
    return x * probability, probability + x * density


def _gelu_by_tanh(x: Array, wants_slope: bool) -> tuple[Array, Any]:
    inner = _ROOT_2_OVER_PI * (x + 0.044715 * x**3)
    gate = 0.5 * (1 + np.tanh(inner))
    if not wants_slope:
        return x * gate, None
    slope = gate + x * 2 * gate * (1 - gate) * _ROOT_2_OVER_PI * (1 + 3 * 0.044715 * x**2)
    return x * gate, slope


def _operand(name: str, x: object) -> Array:
    given = operand(x)
    if given is NotImplemented:
        raise foreign(name, x)
    array = _special.floating(given if isinstance(given, np.ndarray) else as_data(given, None))
    if array.dtype.kind == "c":
        raise TypeError(
            f"{name} is defined for real tensors only, not {array.dtype}: take x.real or x.abs() first"
        )
    return enter(array)  # type: ignore[no-any-return]  # as good as an array


def _has_history(x: object) -> bool:
    return getattr(x, "_node", None) is not None
