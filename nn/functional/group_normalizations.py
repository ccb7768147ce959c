"""Normalization of each sample over groups of its channels."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from nn.functional.checks import array_of, floating_array_of
from nn.functional.normalizations import batch_norm, normalized_per_channel
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError, shown
from tensor.kernels import (
    as_one_dtype,
    inverses_of,
    moments_of_channels,
    normalize_channels,
    normalize_channels_backward,
    run_kernel,
)
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules.table import define

# --- out = weight * normal + bias: mean and deviation of each group, weight and bias of each channel --------


def _as_one_sample(x: Array) -> Array:
    """Return `x` with the channels of all samples as channels of one sample."""
    return x.reshape(1, x.shape[0] * x.shape[1], prod(x.shape[2:]))


def _forward(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, Array, Array]:
    batch, channels = x.shape[:2]
    means, variances = moments_of_channels(x.reshape(1, batch * groups, x.size // (batch * groups)))
    inverses = inverses_of(variances, eps)
    out = normalize_channels(
        _as_one_sample(x),
        np.repeat(means, channels // groups),
        np.repeat(inverses, channels // groups),
        None if weight is None else np.tile(weight, batch),
        None if bias is None else np.tile(bias, batch),
    )
    return out.reshape(x.shape), means, inverses


def _all_gradients(
    g: Any, wanted: tuple[bool, ...], input: Any, weight: Any, means: Any, inverses: Any, groups: int
) -> Any:
    weight = weight if isinstance(weight, np.ndarray) else None
    g, x, weight, means, inverses = as_one_dtype(g, input, weight, means, inverses)
    batch, channels = x.shape[:2]
    channels_per_group, flat_x, flat_g = channels // groups, _as_one_sample(x), _as_one_sample(g)
    each_mean, each_inverse = np.repeat(means, channels_per_group), np.repeat(inverses, channels_per_group)
    _, products, sums = normalize_channels_backward(
        flat_g, flat_x, None, each_mean, each_inverse, False, False, True, True
    )
    assert products is not None
    assert sums is not None
    dx = None
    if wanted[0]:
        # dx = inverse * (g w - mean(g w) - normal * mean(g w normal)), with means over a group.
        scales = np.ones(batch * channels, x.dtype) if weight is None else np.tile(weight, batch)
        count = x.size // (batch * groups)
        mean_g = np.repeat((sums * scales).reshape(-1, channels_per_group).sum(1) / count, channels_per_group)
        mean_g_normal = np.repeat(
            (products * scales).reshape(-1, channels_per_group).sum(1) / count, channels_per_group
        )
        factor_of_x = -mean_g_normal * each_inverse * each_inverse
        shift = -mean_g * each_inverse - factor_of_x * each_mean
        dx = flat_g * (scales * each_inverse)[:, None]
        dx += flat_x * factor_of_x[:, None]
        dx += shift[:, None]
        dx = dx.reshape(x.shape)
    return (
        dx,
        products.reshape(batch, channels).sum(0) if wanted[1] else None,
        sums.reshape(batch, channels).sum(0) if wanted[2] else None,
    )


def _in_groups(xp: Any, x: Any, groups: int) -> Any:
    return xp.reshape(x, (x.shape[0], groups, prod(x.shape[1:]) // groups))


def _normal(xp: Any, x: Any, groups: int, eps: float) -> tuple[Any, Any]:
    """Return the normalized values of each group, and 1 / deviation."""
    parts = _in_groups(xp, x, groups)
    centred = parts - xp.mean(parts, axis=2, keepdims=True)
    inverse = 1 / xp.sqrt(xp.mean(centred * centred, axis=2, keepdims=True) + eps)
    return centred * inverse, inverse


def _broadcastable(xp: Any, weight: Any, like: tuple[int, ...]) -> Any:
    return xp.reshape(weight, (*like[1:2], *(1 for _ in like[2:]))) if hasattr(weight, "shape") else weight


def _gradient_of_input(xp: Any, g: Any, input: Any, weight: Any, groups: int, eps: float) -> Any:
    normal, inverse = _normal(xp, input, groups, eps)
    grouped_g = _in_groups(xp, g * _broadcastable(xp, weight, input.shape), groups)
    mean_g_normal = xp.mean(grouped_g * normal, axis=2, keepdims=True)
    out = inverse * (grouped_g - xp.mean(grouped_g, axis=2, keepdims=True) - normal * mean_g_normal)
    return xp.reshape(out, input.shape)


def _sum_per_channel(xp: Any, g: Any) -> Any:
    return xp.sum(g, axis=(0, *range(2, len(g.shape))))


_RULE = define(
    "group_norm",
    together=_all_gradients,
    input=_gradient_of_input,
    weight=lambda xp, g, input, groups, eps: _sum_per_channel(
        xp, g * xp.reshape(_normal(xp, input, groups, eps)[0], input.shape)
    ),
    bias=_sum_per_channel,
)

# --- Public functions ---------------------------------------------------------------------------------------


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Return `input` normalized over each group of channels of each sample, times `weight` plus `bias`.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *)``.
    num_groups
        The number of groups, which must divide the number of channels.
    weight, bias
        Shape ``(channels,)``.
    eps
        Added to the variance.

    Raises
    ------
    ValueError
        If a shape does not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> [round(x, 3) for x in nn.functional.group_norm(tensor.tensor([[1.0, 3.0, 5.0, 5.0]]), 2)[0].tolist()]
    [-1.0, 1.0, 0.0, 0.0]
    """
    x = floating_array_of("group_norm", "input", input)
    if x.ndim < 2 or type(num_groups) is not int or num_groups < 1 or x.shape[1] % num_groups:
        raise InvalidArgumentError(
            "group_norm: input must have shape (batch, channels, *), and num_groups must divide channels, "
            f"but the shape is {x.shape} and num_groups {shown(num_groups)}"
        )
    arrays: list[Array | None] = []
    for what, given in (("weight", weight), ("bias", bias)):
        array = None if given is None else array_of("group_norm", what, given)
        if array is not None and array.shape != x.shape[1:2]:
            raise InvalidArgumentError(
                f"group_norm: {what} must have shape {x.shape[1:2]}, not {array.shape}"
            )
        arrays.append(array)
    if x.size // num_groups == 1:
        raise InvalidArgumentError(
            f"group_norm: each group must have more than one value, but with num_groups={num_groups} each "
            f"group of an input of shape {x.shape} has only one"
        )
    if not x.size:
        found = input * 1 if weight is None else input * weight.reshape((-1, *(1 for _ in x.shape[2:])))
        return found if bias is None else found + bias.reshape((-1, *(1 for _ in x.shape[2:])))
    dtype, (wide, w, b) = x.dtype, as_one_dtype(x, *arrays)
    out, means, inverses = run_kernel(_forward, wide, num_groups, w, b, eps)
    out = out.astype(dtype, copy=False) if dtype.itemsize == 2 else out
    inputs = (input, 1.0 if weight is None else weight, 0.0 if bias is None else bias)
    parameters = {"means": means, "inverses": inverses, "groups": num_groups, "eps": eps}
    return wrap_recorded(out, record(_RULE, inputs, out, parameters))


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Return `input` normalized over each channel of each sample, times `weight` plus `bias`.

    Parameters
    ----------
    input
        Shape ``(batch, channels, *)``, with more than one element in each channel, or none.
    running_mean, running_var
        Shape ``(channels,)``. If `use_input_stats` is true, they are updated with the mean over the batch of
        the samples' means and unbiased variances. Otherwise `input` is normalized with them.
    weight, bias
        Shape ``(channels,)``.
    use_input_stats
        Normalize with each sample's own mean and variance.
    momentum
        The weight of the batch's statistics in the running statistics.
    eps
        Added to the variance.

    Raises
    ------
    ValueError
        If a shape does not fit, or if a channel has only one element.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.functional.instance_norm(tensor.tensor([[[1.0, 3.0], [5.0, 9.0]]]))
    >>> [[round(v, 3) for v in channel] for channel in y[0].tolist()]
    [[-1.0, 1.0], [-1.0, 1.0]]
    """
    x = floating_array_of("instance_norm", "input", input)
    if x.ndim < 3:
        raise InvalidArgumentError(
            f"instance_norm: input must have shape (batch, channels, *sizes), not {x.shape}"
        )
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if prod(x.shape[2:]) == 1:
        raise InvalidArgumentError(
            f"instance_norm: each channel must have more than one element, but the input has shape {x.shape}"
        )
    batch, channels = x.shape[:2]
    if channels == 0:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if x.size == 0:
        return group_norm(input, channels, weight, bias, eps)
    means = None if running_mean is None else running_mean.detach().tile((batch,))
    variances = None if running_var is None else running_var.detach().tile((batch,))
    out = normalized_per_channel(
        input.reshape((1, batch * channels, *x.shape[2:])),
        means,
        variances,
        None if weight is None else weight.tile((batch,)),
        None if bias is None else bias.tile((batch,)),
        True,
        momentum,
        eps,
    )
    for running, new in ((running_mean, means), (running_var, variances)):
        if running is not None and new is not None:
            running.data.copy_(new.reshape((batch, channels)).mean(dim=0))
    return out.reshape(x.shape)
