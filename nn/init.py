"""Initialize tensors in place, without recording for backward: PyTorch's ``torch.nn.init``."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import EllipsisType
from typing import Any, TypeVar

import numpy as np

from tensor import Generator, Tensor
from tensor._dtypes import Array
from tensor._errors import shown
from tensor.core.tensor import TensorCore, writing
from tensor.creation.generators import numbers_of

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

T = TypeVar("T", bound=Tensor)

# The number of random numbers to draw at once. They fit in the CPU cache.
_DRAWN_AT_ONCE = 16384

_GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the recommended gain for weights before the given nonlinearity.

    Parameters
    ----------
    nonlinearity
        ``"linear"``, ``"sigmoid"``, ``"tanh"``, ``"relu"``, ``"leaky_relu"`` or ``"selu"``.
    param
        The negative slope of ``"leaky_relu"``; 0.01 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2 / (1 + slope * slope))
    gain = _GAINS.get(nonlinearity)
    if gain is None:
        known = sorted([*_GAINS, "leaky_relu"])
        raise ValueError(f"calculate_gain: nonlinearity must be one of {known}, not {shown(nonlinearity)}")
    return gain


def _fill(name: str, x: T, values: Array | float) -> T:
    if not isinstance(x, TensorCore):
        raise TypeError(f"{name} requires a tensor, not {type(x).__name__}")
    x._raise_if_disposed()
    if isinstance(values, np.ndarray) and not np.can_cast(values.dtype, x.dtype, "same_kind"):
        raise TypeError(f"{name} requires a floating tensor, not {x.dtype}: convert it with x.float()")
    with writing(x) as array:
        array[...] = values
    return x


def _shape_of(name: str, x: TensorCore) -> tuple[int, ...]:
    if not isinstance(x, TensorCore):
        raise TypeError(f"{name} requires a tensor, not {type(x).__name__}")
    array = x._array
    if array is None:
        x._raise_disposed()
    shape: tuple[int, ...] = array.shape
    return shape


def _fill_randomly(name: str, x: T, draw: Callable[..., Any], scale: float, shift: float) -> T:
    """Fill with float32 numbers from ``draw(dtype=, out=)``, scaled and shifted."""
    shape = _shape_of(name, x)
    if x.dtype == np.float32 and x.is_contiguous():
        with writing(x) as array:
            _fill_array_randomly(array, draw, scale, shift)
        return x
    drawn = np.empty(shape, np.float32)
    _fill_array_randomly(drawn, draw, scale, shift)
    return _fill(name, x, drawn)


def _fill_array_randomly(array: Array, draw: Callable[..., Any], scale: float, shift: float) -> None:
    flat = array.reshape(-1)
    for i in range(0, flat.size, _DRAWN_AT_ONCE):
        piece = flat[i : i + _DRAWN_AT_ONCE]
        draw(dtype=np.float32, out=piece)
        piece *= scale
        piece += shift


def _uniform(name: str, x: T, low: float, high: float, generator: Generator | None) -> T:
    if not low <= high:
        raise ValueError(f"{name}: a must be at most b, but a = {low} and b = {high}")
    return _fill_randomly(name, x, numbers_of(generator).random, high - low, low)


def _normal(name: str, x: T, mean: float, std: float, generator: Generator | None) -> T:
    if not std >= 0:
        raise ValueError(f"{name}: std must be at least 0, not {std}")
    return _fill_randomly(name, x, numbers_of(generator).standard_normal, std, mean)


def uniform_(tensor: T, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> T:
    """Fill with random numbers, uniformly distributed from `a` to `b`.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.init.uniform_(tensor.zeros((100,)), 2.0, 3.0)
    >>> 2 <= min(x.tolist()) <= max(x.tolist()) <= 3
    True
    """
    return _uniform("uniform_", tensor, a, b, generator)


def normal_(tensor: T, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> T:
    """Fill with random numbers from a normal distribution.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.normal_(tensor.zeros((3,)), mean=2.0, std=0.0).tolist()
    [2.0, 2.0, 2.0]
    """
    return _normal("normal_", tensor, mean, std, generator)


def trunc_normal_(
    tensor: T,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> T:
    """Fill with random numbers from a normal distribution, truncated to the range from `a` to `b`.

    Raises
    ------
    ValueError
        If less than a millionth of the distribution is in that range.

    Examples
    --------
    >>> import nn, tensor
    >>> max(nn.init.trunc_normal_(tensor.zeros((100,)), b=1.0).tolist()) <= 1
    True
    """
    shape = _shape_of("trunc_normal_", tensor)
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std) if std > 0 and a < b else 0.0
    if inside < 1e-6:
        raise ValueError(
            f"trunc_normal_: the range from a={a} to b={b} must contain more than a millionth of the normal "
            f"distribution with mean {mean} and std {std}: widen the range"
        )
    numbers = numbers_of(generator)
    # Draw 10% more numbers than needed on average. Repeat if too few are in the range.
    values: Array = np.empty(0)
    needed = math.prod(shape)
    while values.size < needed:
        drawn = numbers.standard_normal(int((needed - values.size) / inside * 1.1) + 16) * std + mean
        values = np.concatenate((values, drawn[(drawn >= a) & (drawn <= b)]))
    return _fill("trunc_normal_", tensor, values[:needed].reshape(shape))


def _normal_cdf(x: float) -> float:
    """Return the cumulative distribution function of the standard normal distribution."""
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def constant_(tensor: T, val: float) -> T:
    """Fill with `val`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.constant_(tensor.zeros((2,)), 3.0).tolist()
    [3.0, 3.0]
    """
    return _fill("constant_", tensor, val)


def zeros_(tensor: T) -> T:
    """Fill with 0.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.zeros_(tensor.ones((2,))).tolist()
    [0.0, 0.0]
    """
    return _fill("zeros_", tensor, 0)


def ones_(tensor: T) -> T:
    """Fill with 1.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.ones_(tensor.zeros((2,))).tolist()
    [1.0, 1.0]
    """
    return _fill("ones_", tensor, 1)


def eye_(tensor: T) -> T:
    """Fill a matrix with 1 on its diagonal and 0 elsewhere.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.eye_(tensor.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    shape = _shape_of("eye_", tensor)
    if len(shape) != 2:
        raise ValueError(f"eye_ requires a matrix, but this tensor has shape {shape}")
    return _fill("eye_", tensor, np.eye(*shape, dtype=np.int8))


def dirac_(tensor: T, groups: int = 1) -> T:
    """Fill a convolution's weight ``(out, in, *)`` so that it preserves as many channels as possible.

    Parameters
    ----------
    tensor
        The weight to fill, with three, four or five dimensions.
    groups
        The number of groups; each group preserves its own channels.

    Raises
    ------
    ValueError
        If the weight has another number of dimensions, or `groups` does not divide the first size.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.dirac_(tensor.zeros((2, 2, 3))).tolist()
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]
    """
    shape = _shape_of("dirac_", tensor)
    if len(shape) not in (3, 4, 5):
        raise ValueError(
            f"dirac_ requires the weight of a convolution, with 3, 4 or 5 dimensions, not shape {shape}"
        )
    if groups < 1 or shape[0] % groups:
        raise ValueError(
            f"dirac_: groups must divide {shape[0]}, the number of output channels, and {groups} does not"
        )
    values = np.zeros(shape, np.int8)
    if values.size:
        at_middle: tuple[EllipsisType | int, ...] = (..., *[size // 2 for size in shape[2:]])
        middle = values[at_middle]
        channels = np.arange(min(shape[0] // groups, shape[1]))
        for first in range(0, shape[0], shape[0] // groups):
            middle[first + channels, channels] = 1
    return _fill("dirac_", tensor, values)


def _fans(name: str, tensor: TensorCore) -> tuple[int, int]:
    """Return fan-in and fan-out: the numbers of inputs of each output, and of outputs of each input."""
    shape = _shape_of(name, tensor)
    if len(shape) < 2:
        raise ValueError(f"{name} requires a weight of shape (out, in, *), not {shape}")
    window_size = math.prod(shape[2:])
    return shape[1] * window_size, shape[0] * window_size


def xavier_uniform_(tensor: T, gain: float = 1.0, generator: Generator | None = None) -> T:
    """Fill a weight uniformly within +-gain * sqrt(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    Examples
    --------
    >>> import nn, tensor
    >>> max(nn.init.xavier_uniform_(tensor.zeros((3, 3))).tolist()[0]) <= 1
    True
    """
    fan_in, fan_out = _fans("xavier_uniform_", tensor)
    bound = gain * math.sqrt(6 / max(fan_in + fan_out, 1))
    return _uniform("xavier_uniform_", tensor, -bound, bound, generator)


def xavier_normal_(tensor: T, gain: float = 1.0, generator: Generator | None = None) -> T:
    """Fill from a normal distribution, std gain * sqrt(2 / (fan_in + fan_out)) (Glorot and Bengio, 2010).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.xavier_normal_(tensor.zeros((3, 3)), gain=0.0).tolist()[0]
    [0.0, 0.0, 0.0]
    """
    fan_in, fan_out = _fans("xavier_normal_", tensor)
    return _normal("xavier_normal_", tensor, 0.0, gain * math.sqrt(2 / max(fan_in + fan_out, 1)), generator)


def _kaiming_std(name: str, tensor: TensorCore, a: float, mode: str, nonlinearity: str) -> float:
    fans = dict(zip(("fan_in", "fan_out"), _fans(name, tensor), strict=True))
    if mode not in fans:
        raise ValueError(f"{name}: mode must be 'fan_in' or 'fan_out', not {shown(mode)}")
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fans[mode], 1))


def kaiming_uniform_(
    tensor: T,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> T:
    """Fill a weight from a uniform distribution, with the variance for ReLU layers (He et al., 2015).

    Parameters
    ----------
    tensor
        The tensor to fill.
    a
        The negative slope of ``"leaky_relu"``.
    mode
        ``"fan_in"`` preserves the variance in the forward pass, ``"fan_out"`` in the backward pass.
    nonlinearity
        As in ``calculate_gain``.
    generator
        The random generator; None is the default one.

    Examples
    --------
    >>> import nn, tensor
    >>> max(nn.init.kaiming_uniform_(tensor.zeros((2, 6))).tolist()[0]) <= 1
    True
    """
    bound = math.sqrt(3) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return _uniform("kaiming_uniform_", tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: T,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> T:
    """Fill a weight from a normal distribution, with the variance for ReLU layers.

    Parameters
    ----------
    tensor
        The tensor to fill.
    a
        The negative slope of ``"leaky_relu"``.
    mode
        ``"fan_in"`` preserves the variance in the forward pass, ``"fan_out"`` in the backward pass.
    nonlinearity
        As in ``calculate_gain``.
    generator
        The random generator; None is the default one.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.init.kaiming_normal_(tensor.zeros((2, 6))).shape
    (2, 6)
    """
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return _normal("kaiming_normal_", tensor, 0.0, std, generator)


def orthogonal_(tensor: T, gain: float = 1, generator: Generator | None = None) -> T:
    """Fill with a random matrix whose rows or columns are orthonormal, times `gain` (Saxe et al., 2013).

    A tensor of more dimensions is treated as a matrix ``(first, product of the others)``.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.init.orthogonal_(tensor.zeros((2, 2)))
    >>> round(sum(v * v for v in x.tolist()[0]), 4)
    1.0
    """
    shape = _shape_of("orthogonal_", tensor)
    if len(shape) < 2:
        raise ValueError(f"orthogonal_ requires at least two dimensions, but this tensor has shape {shape}")
    rows, columns = shape[0], math.prod(shape[1:])
    drawn = numbers_of(generator).standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q *= np.sign(np.diag(r))  # so that all orthogonal matrices are equally likely
    return _fill("orthogonal_", tensor, gain * (q if rows >= columns else q.T).reshape(shape))


def sparse_(tensor: T, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> T:
    """Fill a matrix with random normal numbers, and zeros at random positions (Martens, 2010).

    Parameters
    ----------
    tensor
        The matrix to fill.
    sparsity
        The fraction of zeros in each column, rounded up to whole elements.
    std
        The standard deviation of the nonzero elements.
    generator
        The random generator for values and positions; None is the default one.

    Raises
    ------
    ValueError
        If the tensor is not a matrix, or `sparsity` is not from 0 to 1.

    Examples
    --------
    >>> import nn, tensor
    >>> (nn.init.sparse_(tensor.ones((4, 3)), sparsity=0.5) == 0).sum(dim=0).tolist()
    [2, 2, 2]
    """
    shape = _shape_of("sparse_", tensor)
    if len(shape) != 2:
        raise ValueError(f"sparse_ requires a matrix, but this tensor has shape {shape}")
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparse_: sparsity must be a fraction from 0 to 1, not {shown(sparsity)}")
    numbers = numbers_of(generator)
    values = numbers.standard_normal(shape, np.float32) * std
    zeros = numbers.random(shape).argsort(axis=0)[: math.ceil(sparsity * shape[0])]
    np.put_along_axis(values, zeros, 0, axis=0)
    return _fill("sparse_", tensor, values)
