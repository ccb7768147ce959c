"""Elementwise functions of neural networks, with PyTorch's names and arguments."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._errors import shown
from tensor.kernels import special
from tensor.kernels.pooled import enter, leave, xp
from tensor.kernels.special import relu_of
from tensor.ops.data import as_data
from tensor.ops.dispatch import apply, foreign, operand
from tensor.ops.elementwise import _unary
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor.core.storage import Array
    from tensor.core.tensor import Tensor

_ROOT_2 = math.sqrt(2)
_ROOT_2_OVER_PI = math.sqrt(2 / math.pi)

relu = _unary("relu", relu_of, "Return the larger of `x` and 0.", "[-1.0, 2.0]", "[0.0, 2.0]")
sigmoid = _unary("sigmoid", special.sigmoid, "Return 1 / (1 + exp(-x)).", "[0.0]", "[0.5]")
logsigmoid = _unary(
    "logsigmoid", special.logsigmoid, "Return log(sigmoid(x)) without overflow.", "[1000.0]", "[-0.0]"
)
erf = _unary("erf", special.erf, "Return the error function.", "[0.0]", "[0.0]")
erfc = _unary("erfc", special.erfc, "Return 1 - erf(x), precise for large `x`.", "[0.0]", "[1.0]")


def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Tensor:
    """Return `x` where it is positive, else `negative_slope` * x.

    Examples
    --------
    >>> import tensor
    >>> tensor.leaky_relu(tensor.tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    array = _operand("leaky_relu", x)
    out = xp.where(array > 0, array, array * negative_slope)
    rule = RULES["leaky_relu" if negative_slope >= 0 else "leaky_relu_by_input"]
    return apply(rule, lambda _: leave(out), (x,), slope=negative_slope)


def elu(x: Any, /, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else `alpha` * (exp(x) - 1).

    Examples
    --------
    >>> import tensor
    >>> tensor.elu(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    array = _operand("elu", x)
    out = xp.where(array > 0, array, alpha * np.expm1(np.minimum(array, 0)))
    rule = RULES["elu" if alpha >= 0 else "elu_by_input"]
    return apply(rule, lambda _: leave(out), (x,), alpha=alpha)


def silu(x: Any, /) -> Tensor:
    """Return x * sigmoid(x).

    Examples
    --------
    >>> import tensor
    >>> tensor.silu(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    out = special.silu(_operand("silu", x))
    return apply(RULES["silu"], lambda _: leave(out), (x,))


def softplus(x: Any, /, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta; `x` itself where beta * x exceeds `threshold`.

    Examples
    --------
    >>> import tensor
    >>> tensor.softplus(tensor.tensor([100.0])).tolist()
    [100.0]
    """
    array = _operand("softplus", x)
    scaled = array if beta == 1 else array * beta
    out = special.softplus(scaled)
    # Where the curve has met its line within the dtype's precision, `out` alone tells the slope.
    is_smooth = threshold >= -math.log(np.finfo(array.dtype).eps / 4)
    if beta != 1 or not is_smooth:
        out = xp.where(scaled > threshold, array, out / beta)
    if is_smooth:
        return apply(RULES["softplus"], lambda _: leave(out), (x,), beta=beta)
    return apply(RULES["softplus_with_bend"], lambda _: leave(out), (x,), beta=beta, threshold=threshold)


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
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {shown(approximate)}")
    array = _operand("gelu", x)
    rule = RULES["gelu" if approximate == "none" else "gelu_by_tanh"]
    # Powers may overflow where the result has long been `x` or 0.
    with np.errstate(over="ignore", invalid="ignore"):
        if approximate == "none":
            gate = special.erf(array * (1 / _ROOT_2)) + 1
        else:
            gate = np.tanh(array * (_ROOT_2_OVER_PI + _ROOT_2_OVER_PI * 0.044715 * (array * array))) + 1
        out = array * (0.5 * gate)
    return apply(rule, lambda _: leave(out), (x,))


def _operand(name: str, x: object) -> Array:
    given = operand(x)
    if given is NotImplemented:
        raise foreign(name, x)
    array = special.floating(given if isinstance(given, np.ndarray) else as_data(given, None))
    if array.dtype.kind == "c":
        raise TypeError(
            f"{name} is defined for real tensors only, not {array.dtype}: take x.real or x.abs() first"
        )
    return enter(array)  # type: ignore[no-any-return]  # as good as an array
