"""Normalization to mean 0 and variance 1 over some dimensions, followed by a scale and a shift."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

import tensor as tn
from nn.functional.axis_matrices import AxisMatrix, multiply_along
from nn.functional.checks import array_of, floating_array_of
from nn.functional.derivatives import RULES
from tensor import Tensor
from tensor._dtypes import Array, Dtype
from tensor._errors import InvalidArgumentError, shown
from tensor.autograd.batch_pieces import require_whole_batch
from tensor.autograd.checkpointing import is_recomputing
from tensor.core.tensor import TensorCore, writing
from tensor.kernels import (
    as_one_dtype,
    blend,
    inverses_of,
    moments_of_channels,
    normalize_channels,
    normalize_rows,
    run_kernel,
)
from tensor.tape.recording import record, remember, wrap_recorded


def _sizes(name: str, x: Array, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not sizes:
        raise InvalidArgumentError(f"{name}: normalized_shape must hold at least one size, not ()")
    if x.shape[-len(sizes) :] != sizes:
        raise InvalidArgumentError(
            f"{name}: the sizes of the input's last dimensions must be {sizes}, but its shape is {x.shape}"
        )
    return sizes


def _affine(
    name: str, sizes: tuple[int, ...], weight: Tensor | None, bias: Tensor | None
) -> tuple[Array | None, Array | None, list[Any]]:
    """Return the arrays of weight and bias, and the inputs of the op: both tensors, or 1 and 0 for None."""
    w, b = _fitting(name, "weight", sizes, weight), _fitting(name, "bias", sizes, bias)
    return w, b, [1.0 if weight is None else weight, 0.0 if bias is None else bias]


def _fitting(name: str, what: str, sizes: tuple[int, ...], x: object) -> Array | None:
    if x is None:
        return None
    # Call `array_of` only for errors, because a call takes 50 ns.
    array = x._array if isinstance(x, TensorCore) else None
    if array is None:
        array = array_of(name, what, x)
    if array.shape != sizes:
        raise InvalidArgumentError(f"{name}: {what} must have shape {sizes}, not {array.shape}")
    return array


@cache
def _last_axes(count: int) -> tuple[int, ...]:
    return tuple(range(-count, 0))


def _rows(
    rule: str,
    input: Tensor,
    x: Array,
    sizes: tuple[int, ...],
    weight: Array | None,
    bias: Array | None,
    affine: list[Any],
    eps: float,
) -> Tensor:
    """Return `input` normalized over its last dimensions. Only the rule "layer_norm" subtracts the mean."""
    dtype = x.dtype
    x, weight, bias = as_one_dtype(x, weight, bias)
    is_centred = rule == "layer_norm"
    out, means, inverses = run_kernel(normalize_rows, x, len(sizes), weight, bias, eps, is_centred)

    out = _narrowed(out, dtype)
    inputs = (input, *affine)
    parameters = {"means": means, "inverses": inverses, "axes": _last_axes(len(sizes)), "eps": eps}
    node = record(RULES[rule], inputs, out, parameters)
    if node is not None:

        def again(x: Array, weight: Any, bias: Any = 0.0) -> Array:
            w, b = (None if isinstance(given, float) else given for given in (weight, bias))
            x, w, b = as_one_dtype(x, w, b)
            return _narrowed(normalize_rows(x, len(sizes), w, b, eps, is_centred)[0], dtype)

        remember(node, again, inputs)
    return wrap_recorded(out, node)


def _narrowed(out: Array, dtype: Dtype) -> Array:
    """Return the result `out` in `dtype`, if that is float16 or bfloat16."""
    return out.astype(dtype) if dtype.itemsize == 2 and out.dtype.itemsize == 4 else out


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
        The sizes of the dimensions to normalize over.
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
    return _rows("layer_norm", input, x, sizes, w, b, affine, eps)


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
        The sizes of the dimensions to normalize over.
    weight
        Shape ``normalized_shape``.
    eps
        Added to the mean square; the dtype's machine epsilon for None.

    Raises
    ------
    ValueError
        If a shape does not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.rms_norm(tensor.tensor([3.0, 3.0]), 2).tolist()
    [1.0, 1.0]
    """
    x = floating_array_of("rms_norm", "input", input)
    sizes = _sizes("rms_norm", x, normalized_shape)
    w, _, affine = _affine("rms_norm", sizes, weight, None)
    small = tn.finfo(x.dtype).eps if eps is None else eps
    return _rows("rms_norm", input, x, sizes, w, None, affine[:1], small)


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
    """Return `input` normalized per channel, times `weight` plus `bias`.

    Parameters
    ----------
    input
        Shape ``(batch, channels)`` or ``(batch, channels, *)``.
    running_mean, running_var
        Shape ``(channels,)``. If `training` is true, they are updated with the batch's mean and unbiased
        variance. Otherwise `input` is normalized with them.
    weight, bias
        Shape ``(channels,)``.
    training
        Normalize with the batch's mean and variance, as is always done without running statistics. An empty
        batch does not change the running statistics.
    momentum
        The weight of the batch's statistics in the running statistics.
    eps
        Added to the variance.

    Raises
    ------
    ValueError
        If a shape does not fit, or if a channel has only one value in training.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[1.0], [3.0]])
    >>> [round(v, 3) for v in nn.functional.batch_norm(x, None, None, training=True)[:, 0].tolist()]
    [-1.0, 1.0]
    """
    if training or running_mean is None or running_var is None:
        require_whole_batch(
            "batch_norm in training uses the mean and variance of the whole batch. Use group_norm or "
            "layer_norm, or call eval() of the batch norms"
        )
    return normalized_per_channel(input, running_mean, running_var, weight, bias, training, momentum, eps)


def normalized_per_channel(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """Return what ``batch_norm`` returns."""
    x = floating_array_of("batch_norm", "input", input)
    if x.ndim < 2:
        raise InvalidArgumentError(
            f"batch_norm: input must have shape (batch, channels) or (batch, channels, *), not {x.shape}"
        )
    channels = (x.shape[1],)
    w, b, affine = _affine("batch_norm", channels, weight, bias)
    _fitting("batch_norm", "running_mean", channels, running_mean)
    _fitting("batch_norm", "running_var", channels, running_var)
    dtype = x.dtype
    # With an eps of 0, a variance of 0 would divide by 0.
    if eps < 0 or (training and eps == 0):
        least = "above 0 in training" if training else "at least 0"
        raise InvalidArgumentError(f"batch_norm: eps must be {least}, not {shown(eps)}")
    are_given = not training and running_mean is not None and running_var is not None
    means = array_of("batch_norm", "running_mean", running_mean) if are_given else None
    variances = array_of("batch_norm", "running_var", running_var) if are_given else None
    x, w, b, means, variances = as_one_dtype(x, w, b, means, variances)
    parameters: dict[str, Any] = {"like": (channels[0], *(1 for _ in x.shape[2:])), "eps": eps, "axes": None}
    rule = "scale_and_shift"
    if not are_given and x.size == 0:
        means = variances = np.zeros(channels, x.dtype)  # no elements: do not change the running statistics
    elif not are_given:
        count = x.size // channels[0]
        if count == 1 and training:
            raise InvalidArgumentError(
                "batch_norm: in training, each channel must have more than one value, but the input has "
                f"shape {x.shape}: pass a larger batch, or call module.eval()"
            )
        means, variances = run_kernel(moments_of_channels, x)
        if training:
            _blend(running_mean, means, momentum)
            _blend(running_var, variances, momentum, count / (count - 1))
        rule = "batch_norm"
        parameters["axes"] = (0, *range(2, x.ndim))
    inverses = run_kernel(inverses_of, variances, eps)
    out = run_kernel(normalize_channels, x, means, inverses, w, b)
    # The node needs its own copy, because running statistics change.
    parameters |= {"means": means.copy() if are_given else means, "inverses": inverses}

    def again(x: Array, weight: Any, bias: Any) -> Array:
        w, b = (None if isinstance(given, float) else given for given in (weight, bias))
        x, w, b = as_one_dtype(x, w, b)
        means, inverses = (parameters[name].astype(x.dtype, copy=False) for name in ("means", "inverses"))
        return _narrowed(normalize_channels(x, means, inverses, w, b), dtype)

    out = _narrowed(out, dtype)
    inputs = (input, *affine)
    node = record(RULES[rule], inputs, out, parameters)
    remember(node, again, inputs)
    return wrap_recorded(out, node)


def _blend(running: Tensor | None, new: Array, momentum: float, factor: float = 1.0) -> None:
    if running is not None and not is_recomputing():
        with writing(running) as array:
            blend(array, new, momentum, factor)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Return `input` divided by a power of the mean square of neighboring channels.

    It is ``input / (k + alpha * mean) ** beta``, with the mean of squares over `size` channels around each
    channel. Channels before the first and after the last count as zeros (Krizhevsky et al., 2012).

    Parameters
    ----------
    input
        Shape ``(batch, channels, *sizes)``.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[[3.0], [0.0], [1.0]]])
    >>> nn.functional.local_response_norm(x, 1, alpha=1.0, beta=0.5, k=0.0).flatten().tolist()
    [1.0, nan, 1.0]
    """
    x = floating_array_of("local_response_norm", "input", input)
    if x.ndim < 3:
        raise InvalidArgumentError(
            f"local_response_norm: input must have shape (batch, channels, *sizes), not {x.shape}"
        )
    if type(size) is not int or size < 1:
        raise InvalidArgumentError(
            f"local_response_norm: size must be a number of channels, at least 1, not {shown(size)}"
        )
    if not x.size:
        return input
    channels = np.arange(x.shape[1])
    places = channels[:, None] - size // 2 + np.arange(size)
    is_there = (places >= 0) & (places < x.shape[1])
    around = AxisMatrix.of_rows(places, is_there / size, x.shape[1])
    return input / (multiply_along(input * input, [(1, around)]) * alpha + k).pow(beta)
