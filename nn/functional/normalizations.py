"""Normalisation: to mean 0 and variance 1 over some dimensions, then scaled and shifted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nn.functional.checks import array_of, floating_array_of
from nn.functional.derivatives import RULES
from tensor.kernels import in_kernels, run_kernel
from tensor.lowlevel import Array, is_recomputing, record, wrap, wrap_recorded, writing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor


def _sizes(name: str, x: Array, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not sizes or x.shape[x.ndim - len(sizes) :] != sizes or x.ndim < len(sizes):
        raise ValueError(f"{name}: input's last dimensions must be {sizes}, and its shape is {x.shape}")
    return sizes


def _affine(
    name: str, sizes: tuple[int, ...], weight: Tensor | None, bias: Tensor | None
) -> tuple[Array | None, Array | None, list[Any]]:
    """Return the arrays under weight and bias, and both as inputs of a rule, constants where None."""
    arrays: list[Array | None] = []
    for what, x in (("weight", weight), ("bias", bias)):
        array = None if x is None else array_of(name, what, x)
        if array is not None and array.shape != sizes:
            raise ValueError(f"{name}: {what} must have shape {sizes}, not {array.shape}")
        arrays.append(array)
    return arrays[0], arrays[1], [1.0 if weight is None else weight, 0.0 if bias is None else bias]


def _scaled(normal: Array, weight: Array | None, bias: Array | None, like: tuple[int, ...] | None) -> Any:
    out = normal if weight is None else normal * (weight if like is None else weight.reshape(like))
    if bias is None:
        return out
    return np.asarray(out + (bias if like is None else bias.reshape(like)))


def _normalised(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array, Array]:
    """Return (x - mean) / deviation, 1 / deviation, mean and variance."""
    mean = x.mean(axis=axes, keepdims=True)
    normal = x - mean
    variance = np.mean(normal * normal, axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + eps)
    normal *= inverse
    return normal, inverse, mean, variance


def layer_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return `input` with mean 0 and variance 1 over its last dimensions, times `weight` plus `bias`.

    Parameters
    ----------
    input
        Shape ``(*, *normalized_shape)``.
    normalized_shape
        The sizes of the dimensions to normalise over.
    weight, bias
        Shape ``normalized_shape``.
    eps
        Added to the variance.

    Raises
    ------
    ValueError
        If a shape does not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.functional.layer_norm(tensor.tensor([[1.0, 3.0]]), 2)
    >>> [round(v, 3) for v in y[0].tolist()]
    [-1.0, 1.0]
    """
    x = floating_array_of("layer_norm", "input", input)
    sizes = _sizes("layer_norm", x, normalized_shape)
    w, b, affine = _affine("layer_norm", sizes, weight, bias)
    axes = tuple(range(-len(sizes), 0))
    with in_kernels():
        normal, inverse, _, _ = _normalised(x, axes, eps)
        out = _scaled(normal, w, b, None)
    parameters = {"normal": normal, "inverse": inverse, "axes": axes, "like": None}
    return _recorded("normalize", (input, *affine), out, parameters)


def rms_norm(
    input: Tensor,
    normalized_shape: int | Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Return `input` divided by the root of its mean square over its last dimensions, times `weight`.

    Parameters
    ----------
    input
        Shape ``(*, *normalized_shape)``.
    normalized_shape
        The sizes of the dimensions to normalise over.
    weight
        Shape ``normalized_shape``.
    eps
        Added to the mean square; the dtype's machine epsilon for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.rms_norm(tensor.tensor([3.0, 3.0]), 2).tolist()
    [1.0, 1.0]
    """
    x = floating_array_of("rms_norm", "input", input)
    sizes = _sizes("rms_norm", x, normalized_shape)
    w, _, affine = _affine("rms_norm", sizes, weight, None)
    axes = tuple(range(-len(sizes), 0))
    small = float(np.finfo(x.dtype).eps) if eps is None else eps
    with in_kernels():
        inverse = 1 / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + small)
        normal = np.asarray(x * inverse)
        out = _scaled(normal, w, None, None)
    parameters = {"normal": normal, "inverse": inverse, "axes": axes}
    return _recorded("rms_norm", (input, affine[0]), out, parameters)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return `input` normalised per channel, times `weight` plus `bias`.

    Parameters
    ----------
    input
        Shape ``(batch, channels)`` or ``(batch, channels, *)``.
    running_mean, running_var
        Shape ``(channels,)``. With `training` they are written: `momentum` of the batch's mean and unbiased
        variance go in. Without it they are what `input` is normalised by.
    weight, bias
        Shape ``(channels,)``.
    training
        Normalise by the batch's own mean and variance.
    momentum
        The share of the new in the running figures.
    eps
        Added to the variance.

    Raises
    ------
    ValueError
        If a shape does not fit, or if in training a channel has one value alone.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[1.0], [3.0]])
    >>> [round(v, 3) for v in nn.functional.batch_norm(x, None, None, training=True)[:, 0].tolist()]
    [-1.0, 1.0]
    """
    x = floating_array_of("batch_norm", "input", input)
    if x.ndim < 2:
        raise ValueError(
            f"batch_norm: input has shape (batch, channels) or (batch, channels, *), not {x.shape}"
        )
    channels = (x.shape[1],)
    w, b, affine = _affine("batch_norm", channels, weight, bias)
    _affine("batch_norm (running_mean, running_var)", channels, running_mean, running_var)
    like = (channels[0], *(1 for _ in x.shape[2:]))
    axes = (0, *range(2, x.ndim))
    parameters: dict[str, Any] = {"like": like}
    if training or running_mean is None or running_var is None:
        count = x.size // channels[0] if x.size else 0
        if count < 2 and training:
            raise ValueError(
                "batch_norm: in training each channel needs more than one value, and the input has shape "
                f"{x.shape}: pass a larger batch, or call module.eval()"
            )
        normal, inverse, mean, variance = run_kernel(_normalised, x, axes, eps)
        if training:
            _blend(running_mean, mean, momentum)
            _blend(running_var, variance * (count / (count - 1)), momentum)
        rule = "normalize"
        parameters |= {"axes": axes}
    else:
        mean = array_of("batch_norm", "running_mean", running_mean).reshape(like)
        variance = array_of("batch_norm", "running_var", running_var).reshape(like)
        with in_kernels():
            inverse = 1 / np.sqrt(variance + eps)
            normal = np.asarray((x - mean) * inverse)
        rule = "scale_and_shift"
    out = run_kernel(_scaled, normal, w, b, like)
    parameters |= {"normal": normal, "inverse": inverse}
    return _recorded(rule, (input, *affine), out, parameters)


def _recorded(rule: str, inputs: tuple[Any, ...], out: Array, parameters: dict[str, Any]) -> Tensor:
    """Return the tensor over `out`; its node keeps what it needs of `parameters`."""
    if out is not parameters["normal"]:
        y = wrap_recorded(out, record(RULES[rule], inputs, out, parameters))
    else:
        # Without a weight and a bias: the node keeps the values of the output.
        y = wrap(out)
        y._node = record(RULES[rule], inputs, out, {**parameters, "normal": y})
    return y


def _blend(running: Tensor | None, new: Array, momentum: float) -> None:
    if running is not None and not is_recomputing():
        with writing(running) as array:
            array *= 1 - momentum
            array += momentum * new.reshape(array.shape)
