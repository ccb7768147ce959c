"""Activations that write to their input, with PyTorch's names that end in an underscore."""

from __future__ import annotations

from nn.functional import piecewise_activations
from nn.functional.activations import elu, leaky_relu, relu
from nn.functional.piecewise_activations import hardtanh, rrelu
from nn.functional.smooth_activations import celu, selu
from tensor import Tensor


def relu_(input: Tensor) -> Tensor:
    """Return ``relu(input, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.relu_(tensor.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return relu(input, inplace=True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Return ``leaky_relu(input, negative_slope, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.leaky_relu_(tensor.tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    return leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return ``elu(input, alpha, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.elu_(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return elu(input, alpha, inplace=True)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Return ``celu(input, alpha, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.celu_(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """Return ``selu(input, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.selu_(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    return selu(input, inplace=True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Return ``hardtanh(input, min_val, max_val, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.hardtanh_(tensor.tensor([-2.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    return hardtanh(input, min_val, max_val, inplace=True)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Return ``threshold(input, threshold, value, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.threshold_(tensor.tensor([0.5, 2.0]), 1.0, -7.0).tolist()
    [-7.0, 2.0]
    """
    return piecewise_activations.threshold(input, threshold, value, inplace=True)


def rrelu_(input: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Tensor:
    """Return ``rrelu(input, lower, upper, training, inplace=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.rrelu_(tensor.tensor([-2.0, 2.0]), 0.25, 0.75).tolist()
    [-1.0, 2.0]
    """
    return rrelu(input, lower, upper, training, inplace=True)
