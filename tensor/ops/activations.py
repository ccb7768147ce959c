"""Elementwise functions of neural networks, with PyTorch's names and arguments."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.core.promotion import with_numbers
from tensor.kernels import elementwise as kernels
from tensor.kernels import special
from tensor.kernels.namespace import xp
from tensor.ops.data import as_data
from tensor.ops.dispatch import UnaryOp, apply, apply_into, operand
from tensor.ops.messages import foreign
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_silu = UnaryOp(RULES["silu"], special.silu, kernels.silu)
_gelu = UnaryOp(RULES["gelu"], special.gelu, kernels.gelu)
_gelu_by_tanh = UnaryOp(RULES["gelu_by_tanh"], special.gelu_by_tanh, kernels.gelu_by_tanh)


def leaky_relu(x: Any, /, negative_slope: float = 0.01) -> Tensor:
    """Return `x` where it is positive, else `negative_slope` * x.

    Examples
    --------
    >>> import tensor
    >>> tensor.leaky_relu(tensor.tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    rule = RULES["leaky_relu" if negative_slope >= 0 else "leaky_relu_by_input"]
    return apply_into(
        rule,
        lambda a, out: with_numbers(_leaky_relu, _real("leaky_relu", a), negative_slope, out),
        (x,),
        slope=negative_slope,
    )


def elu(x: Any, /, alpha: float = 1.0) -> Tensor:
    """Return `x` where it is positive, else `alpha` * (exp(x) - 1).

    Examples
    --------
    >>> import tensor
    >>> tensor.elu(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    # Of a result of 16 bits near -alpha, too few bits are left for exp(x), which is out / alpha + 1.
    is_half = getattr(getattr(x, "dtype", None), "itemsize", None) == 2
    rule = RULES["elu" if alpha >= 0 and not is_half else "elu_by_input"]
    return apply_into(rule, lambda a, out: with_numbers(_elu, _real("elu", a), alpha, out), (x,), alpha=alpha)


def silu(x: Any, /) -> Tensor:
    """Return x * sigmoid(x).

    Examples
    --------
    >>> import tensor
    >>> tensor.silu(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return _silu(x)


def softplus(x: Any, /, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """Return log(1 + exp(beta * x)) / beta; `x` itself if beta * x exceeds `threshold`.

    Examples
    --------
    >>> import tensor
    >>> tensor.softplus(tensor.tensor([100.0])).tolist()
    [100.0]
    """
    # The derivative is a function of the result alone if log(1 + exp(x)) rounds to x above `threshold`.
    is_smooth = threshold >= _linear_from(_real("softplus", _values("softplus", x)))

    def kernel(a: Array) -> Any:
        return _softplus(a, beta, threshold)

    if is_smooth:
        return apply(RULES["softplus"], partial(with_numbers, kernel), (x,), beta=beta)
    rule = RULES["softplus_with_bend"]
    return apply(rule, partial(with_numbers, kernel), (x,), beta=beta, threshold=threshold)


def gelu(x: Any, /, approximate: str = "none") -> Tensor:
    """Return x * Phi(x), with the normal distribution function Phi (Hendrycks and Gimpel, 2016).

    Parameters
    ----------
    x
        A floating tensor.
    approximate
        ``"none"`` uses the error function, ``"tanh"`` the approximation of the paper.

    Examples
    --------
    >>> import tensor
    >>> tensor.gelu(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    if approximate not in ("none", "tanh"):
        raise InvalidArgumentError(f"gelu: approximate must be 'none' or 'tanh', not {shown(approximate)}")
    return _gelu(x) if approximate == "none" else _gelu_by_tanh(x)


def _values(name: str, x: object) -> Array:
    given = operand(x)
    if given is NotImplemented:
        raise foreign(name, x)
    return given  # type: ignore[no-any-return]


def _real(name: str, x: Any) -> Array:
    array = special.floating(x if isinstance(x, np.ndarray) else as_data(x, None))
    if array.dtype.kind == "c":
        raise TypeError(
            f"{name} is defined for real tensors only, not {array.dtype}: take x.real or x.abs() first"
        )
    return array  # type: ignore[no-any-return]


def _leaky_relu(x: Array, slope: float, out: Array | None) -> Any:
    return _unless_positive(x, x * slope, out)


def _elu(x: Array, alpha: float, out: Array | None) -> Any:
    return _unless_positive(x, alpha * np.expm1(np.minimum(x, 0)), out)


def _unless_positive(x: Array, below: Any, out: Array | None) -> Any:
    """Return `x` where it is positive, else `below`; in `out` if `out` is `x` and the dtypes are equal."""
    if out is not x or below.dtype != x.dtype:
        return xp.where(x > 0, x, below)
    np.copyto(out, below, where=~(x > 0))
    return out


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    x = _real("softplus", x)
    scaled = x if beta == 1 else x * beta
    out = special.softplus(scaled)
    return out if beta == 1 and threshold >= _linear_from(x) else xp.where(scaled > threshold, x, out / beta)


def _linear_from(x: Array) -> float:
    """Return a number above which softplus(x) equals x in the precision of the dtype."""
    return -math.log(np.finfo(x.dtype).eps / 4)
