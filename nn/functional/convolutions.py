"""Convolutions and transposed convolutions over one to three spatial dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nn.functional.checks import array_of
from tensor import Tensor
from tensor._dtypes import Array, is_inexact
from tensor._errors import shown
from tensor.kernels import Geometry, convolve, convolve_for_weight, convolve_transposed
from tensor.ops.dispatch import apply
from tensor.tape.rules.table import define

# The limit for each size, stride, padding and dilation. Compiled code computes with products of them.
_MAX_SIZE = 2**40

# --- The three ops, which are each other's derivatives ------------------------------------------------------


def _conj(xp: Any, x: Any) -> Any:
    return xp.conj(x) if x.dtype.kind == "c" else x


def _over_batch_and_space(xp: Any, g: Any) -> Any:
    return xp.sum(g, axis=(0, *range(2, g.ndim)))


def _forward(xp: Any, x: Any, weight: Any, geometry: Geometry, outs: tuple[int, ...]) -> Any:
    if xp.is_recorded:
        return _recorded_forward(x, weight, None, geometry, outs)
    return _widened(convolve, x, weight, geometry, outs)


def _transposed(xp: Any, y: Any, weight: Any, geometry: Geometry, sizes: tuple[int, ...]) -> Any:
    if xp.is_recorded:
        return _recorded_transposed(y, weight, None, geometry, sizes)
    return _widened(convolve_transposed, y, weight, geometry, sizes)


def _for_weight(xp: Any, x: Any, y: Any, geometry: Geometry) -> Any:
    if xp.is_recorded:
        return weight_of_convolution(x, y, geometry)
    return _widened(convolve_for_weight, x, y, geometry)


_FORWARD = define(
    "convolution",
    input=lambda xp, g, weight, geometry, to_shape: _transposed(
        xp, g, _conj(xp, weight), geometry, to_shape[2:]
    ),
    weight=lambda xp, g, input, geometry: _for_weight(xp, _conj(xp, input), g, geometry),
    bias=_over_batch_and_space,
)
_TRANSPOSED = define(
    "transposed_convolution",
    input=lambda xp, g, weight, geometry, to_shape: _forward(
        xp, g, _conj(xp, weight), geometry, to_shape[2:]
    ),
    weight=lambda xp, g, input, geometry: _for_weight(xp, g, _conj(xp, input), geometry),
    bias=_over_batch_and_space,
)
_BY_WEIGHT = define(
    "weight_of_convolution",
    input=lambda xp, g, output, geometry, to_shape: _transposed(
        xp, _conj(xp, output), g, geometry, to_shape[2:]
    ),
    output=lambda xp, g, input, geometry, to_shape: _forward(xp, _conj(xp, input), g, geometry, to_shape[2:]),
)


def _widened(function: Callable[..., Array], a: Array, b: Array, *rest: Any) -> Array:
    """Compute in the common dtype of `a` and `b`, at least float32. Return the result in the common dtype."""
    given = np.result_type(a, b)
    dtype = np.result_type(given, np.float32)
    found = function(a.astype(dtype, copy=False), b.astype(dtype, copy=False), *rest)
    return found.astype(given, copy=False)


def _recorded(
    rule: Any,
    function: Callable[..., Array],
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    geometry: Geometry,
    sizes: tuple[int, ...],
) -> Tensor:
    """Run `function` for a result of `sizes`, and record it with `rule`."""

    def kernel(x: Array, weight: Array, bias: Any) -> Array:
        return _biased(function, x, weight, bias, geometry, sizes)

    inputs = (x, weight, 0.0 if bias is None else bias)
    return apply(rule, kernel, inputs, geometry=geometry)


_recorded_forward = partial(_recorded, _FORWARD, convolve)
_recorded_transposed = partial(_recorded, _TRANSPOSED, convolve_transposed)


def weight_of_convolution(input: Tensor, output: Tensor, geometry: Geometry) -> Tensor:
    """Return the gradient for the weight of a convolution whose result has the shape of `output`."""

    def kernel(x: Array, y: Array) -> Array:
        return _widened(convolve_for_weight, x, y, geometry)

    return apply(_BY_WEIGHT, kernel, (input, output), geometry=geometry)


def _biased(function: Callable[..., Array], a: Array, b: Array, bias: Any, *rest: Any) -> Array:
    """Return the result of ``_widened``, plus the bias of each channel if `bias` is an array."""
    if not isinstance(bias, np.ndarray):
        return _widened(function, a, b, *rest)
    if "c" in a.dtype.kind + b.dtype.kind + bias.dtype.kind:
        return _widened(function, a, b, *rest) + bias.reshape(-1, *[1] * (a.ndim - 2))
    return _widened(partial(function, bias=bias), a, b, *rest)


# --- Checks of arguments ------------------------------------------------------------------------------------


def sizes_of(name: str, what: str, given: object, count: int, least: int) -> tuple[int, ...]:
    """Return `given`, one integer or one for each of `count` dimensions, as a tuple.

    Raises
    ------
    TypeError, ValueError
        If `given` has another type, is less than `least`, or is too large for kernels.
    """
    many: tuple[Any, ...] = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    if len(many) == 1:
        many *= count
    if any(type(n) is not int for n in many):
        raise TypeError(f"{name}: {what} must be an integer, or {count} of them, not {shown(given)}")
    if len(many) != count or min(many, default=least) < least:
        raise ValueError(
            f"{name}: {what} must be an integer of at least {least}, or {count} of them, not {shown(given)}"
        )
    if max(many, default=0) > _MAX_SIZE:
        raise ValueError(f"{name}: {what} must be at most 2**40, not {shown(given)}")
    return many


def geometry_of(
    name: str,
    kernel: tuple[int, ...],
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
) -> Geometry:
    """Check the user's options for a kernel of sizes `kernel`, and return them as a `Geometry`."""
    count = len(kernel)
    strides = sizes_of(name, "stride", stride, count, 1)
    dilations = sizes_of(name, "dilation", dilation, count, 1)
    if type(groups) is not int or groups < 1:
        raise ValueError(f"{name}: groups must be an integer of at least 1, not {shown(groups)}")
    if isinstance(padding, str):
        return Geometry(
            kernel, strides, _named_padding(name, padding, kernel, strides, dilations), dilations, groups
        )
    pads = sizes_of(name, "padding", padding, count, 0)
    return Geometry(kernel, strides, tuple([(pad, pad) for pad in pads]), dilations, groups)


def _named_padding(
    name: str, padding: str, kernel: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        raise ValueError(f"{name}: padding must be 'valid', 'same' or integers, not {shown(padding)}")
    if set(strides) != {1}:
        raise ValueError(
            f"{name}: padding='same' requires a stride of 1, not {strides}: pass integers as padding"
        )
    needed = [step * (size - 1) for size, step in zip(kernel, dilations, strict=True)]
    return tuple([(n // 2, n - n // 2) for n in needed])


def _checked(
    name: str, count: int, input: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Array, Array]:
    """Check dtypes and numbers of dimensions of input and weight, and return their arrays."""
    x, w = array_of(name, "input", input), array_of(name, "weight", weight)
    for what, array in (("input", x), ("weight", w)):
        if not is_inexact(array.dtype):
            raise TypeError(
                f"{name}: {what} must be floating or complex, not {array.dtype}: convert it with "
                f"{what}.float()"
            )
    if x.ndim not in (count + 1, count + 2):
        raise ValueError(
            f"{name}: input must have shape (batch, channels, *sizes) or (channels, *sizes), with {count} "
            f"{'size' if count == 1 else 'sizes'}, not {x.shape}"
        )
    if w.ndim != count + 2 or min(w.shape[2:]) < 1:
        raise ValueError(
            f"{name}: weight must have {count + 2} dimensions, with the kernel's sizes at the end, not shape "
            f"{w.shape}"
        )
    if bias is not None:
        array_of(name, "bias", bias)
    return x, w


def _check_bias(name: str, bias: Tensor | None, channels: int) -> None:
    if bias is not None and bias.shape != (channels,):
        raise ValueError(
            f"{name}: bias must have shape {(channels,)}, one for each output channel, not {bias.shape}"
        )


def _conv(
    name: str,
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: str | int | Sequence[int],
    dilation: int | Sequence[int],
    groups: int,
) -> Tensor:
    x, w = _checked(name, dims, input, weight, bias)
    geometry = geometry_of(name, w.shape[2:], stride, padding, dilation, groups)
    channels = x.shape[-dims - 1]
    if channels != w.shape[1] * groups:
        raise ValueError(
            f"{name}: with groups={groups} and a weight of shape {w.shape}, the input must have "
            f"{w.shape[1] * groups} channels, but its shape is {x.shape}"
        )
    if w.shape[0] % groups:
        raise ValueError(
            f"{name}: the output channels of weight, {w.shape[0]}, must be divisible by groups, {groups}"
        )
    _check_bias(name, bias, w.shape[0])
    sizes = x.shape[-dims:]
    outs = geometry.outputs(sizes)
    if min(outs) < 1:
        raise ValueError(
            f"{name}: the kernel with its dilation spans {geometry.spans()} elements, but the input with its "
            f"padding has only {geometry.padded(sizes)}"
        )
    if x.ndim == dims + 1:
        return _recorded_forward(input.unsqueeze(0), weight, bias, geometry, outs).squeeze(0)
    return _recorded_forward(input, weight, bias, geometry, outs)


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of `input` with `weight` over one dimension.

    It is a cross-correlation, as in PyTorch: each output is the sum of the products of a patch of the input
    with the kernel. Temporary memory does not depend on the batch: the padded input is copied in pieces of
    about two megabytes. Backward needs only the input and the weight.

    Parameters
    ----------
    input
        Shape ``(batch, in_channels, length)``, or without the batch.
    weight
        Shape ``(out_channels, in_channels / groups, *kernel)``.
    bias
        Shape ``(out_channels,)``.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of zeros to add on both sides. ``"same"`` keeps the sizes, ``"valid"`` adds none.
    dilation
        The distance between the elements of a patch.
    groups
        The number of groups of channels, each with its own convolution.

    Returns
    -------
    Shape ``(batch, out_channels, length)``; each size is
    ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.
    TypeError
        If input or weight are integers.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.conv1d(tensor.ones((1, 2, 5)), tensor.ones((3, 2, 3))).shape
    (1, 3, 3)
    """
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of `input` with `weight` over two dimensions.

    It is a cross-correlation, as in PyTorch: each output is the sum of the products of a patch of the input
    with the kernel. Temporary memory does not depend on the batch: the padded input is copied in pieces of
    about two megabytes. Backward needs only the input and the weight.

    Parameters
    ----------
    input
        Shape ``(batch, in_channels, height, width)``, or without the batch.
    weight
        Shape ``(out_channels, in_channels / groups, *kernel)``.
    bias
        Shape ``(out_channels,)``.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of zeros to add on both sides. ``"same"`` keeps the sizes, ``"valid"`` adds none.
    dilation
        The distance between the elements of a patch.
    groups
        The number of groups of channels, each with its own convolution.

    Returns
    -------
    Shape ``(batch, out_channels, height, width)``; each size is
    ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.
    TypeError
        If input or weight are integers.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.conv2d(tensor.ones((1, 2, 5, 5)), tensor.ones((3, 2, 3, 3))).shape
    (1, 3, 3, 3)
    """
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: str | int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of `input` with `weight` over three dimensions.

    It is a cross-correlation, as in PyTorch: each output is the sum of the products of a patch of the input
    with the kernel. Temporary memory does not depend on the batch: the padded input is copied in pieces of
    about two megabytes. Backward needs only the input and the weight.

    Parameters
    ----------
    input
        Shape ``(batch, in_channels, depth, height, width)``, or without the batch.
    weight
        Shape ``(out_channels, in_channels / groups, *kernel)``.
    bias
        Shape ``(out_channels,)``.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of zeros to add on both sides. ``"same"`` keeps the sizes, ``"valid"`` adds none.
    dilation
        The distance between the elements of a patch.
    groups
        The number of groups of channels, each with its own convolution.

    Returns
    -------
    Shape ``(batch, out_channels, depth, height, width)``; each size is
    ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.
    TypeError
        If input or weight are integers.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.conv3d(tensor.ones((1, 2, 5, 5, 5)), tensor.ones((3, 2, 3, 3, 3))).shape
    (1, 3, 3, 3, 3)
    """
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    name: str,
    dims: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: int | Sequence[int],
    padding: int | Sequence[int],
    output_padding: int | Sequence[int],
    groups: int,
    dilation: int | Sequence[int],
) -> Tensor:
    x, w = _checked(name, dims, input, weight, bias)
    if isinstance(padding, str):
        raise TypeError(f"{name}: padding must be an integer, or {dims} of them, not {shown(padding)}")
    geometry = geometry_of(name, w.shape[2:], stride, padding, dilation, groups)
    more = sizes_of(name, "output_padding", output_padding, dims, 0)
    for n, step, jump in zip(more, geometry.dilation, geometry.stride, strict=True):
        if n >= max(step, jump):
            raise ValueError(
                f"{name}: output_padding must be less than stride or dilation, but output_padding is {more}, "
                f"stride {geometry.stride} and dilation {geometry.dilation}"
            )
    channels = x.shape[-dims - 1]
    if channels != w.shape[0]:
        raise ValueError(
            f"{name}: with a weight of shape {w.shape}, the input must have {w.shape[0]} channels, but its "
            f"shape is {x.shape}"
        )
    if channels % groups:
        raise ValueError(f"{name}: the input's channels, {channels}, must be divisible by groups, {groups}")
    _check_bias(name, bias, w.shape[1] * groups)
    sizes = tuple(
        [
            (size - 1) * jump - sum(pad) + span + n
            for size, jump, pad, span, n in zip(
                x.shape[-dims:], geometry.stride, geometry.padding, geometry.spans(), more, strict=True
            )
        ]
    )
    if min(sizes) < 0 or min(x.shape[-dims:]) < 1:
        raise ValueError(f"{name}: an input of shape {x.shape} would give an output of sizes {sizes}")
    if x.ndim == dims + 1:
        return _recorded_transposed(input.unsqueeze(0), weight, bias, geometry, sizes).squeeze(0)
    return _recorded_transposed(input, weight, bias, geometry, sizes)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Return the transposed convolution over one dimension.

    Each element of the input, times the kernel, is added to a patch of the output. This computes the
    gradient of ``conv1d`` with respect to its input.

    Parameters
    ----------
    input
        Shape ``(batch, in_channels, length)``, or without the batch.
    weight
        Shape ``(in_channels, out_channels / groups, *kernel)``.
    bias
        Shape ``(out_channels,)``.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of elements to remove from both sides of the output.
    output_padding
        The number of elements to add at the end of the output. It selects one of the output sizes that match
        the input size.
    groups
        The number of groups of channels.
    dilation
        The distance between the elements of a patch.

    Returns
    -------
    Shape ``(batch, out_channels, length)``; each size is
    ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.
    TypeError
        If input or weight are integers.

    Examples
    --------
    >>> import nn, tensor
    >>> x, weight = tensor.ones((1, 2, 3)), tensor.ones((2, 3, 3))
    >>> nn.functional.conv_transpose1d(x, weight).shape
    (1, 3, 5)
    """
    return _conv_transpose(
        "conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Return the transposed convolution over two dimensions.

    Each element of the input, times the kernel, is added to a patch of the output. This computes the
    gradient of ``conv2d`` with respect to its input.

    Parameters
    ----------
    input
        Shape ``(batch, in_channels, height, width)``, or without the batch.
    weight
        Shape ``(in_channels, out_channels / groups, *kernel)``.
    bias
        Shape ``(out_channels,)``.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of elements to remove from both sides of the output.
    output_padding
        The number of elements to add at the end of the output. It selects one of the output sizes that match
        the input size.
    groups
        The number of groups of channels.
    dilation
        The distance between the elements of a patch.

    Returns
    -------
    Shape ``(batch, out_channels, height, width)``; each size is
    ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.
    TypeError
        If input or weight are integers.

    Examples
    --------
    >>> import nn, tensor
    >>> x, weight = tensor.ones((1, 2, 3, 3)), tensor.ones((2, 3, 3, 3))
    >>> nn.functional.conv_transpose2d(x, weight).shape
    (1, 3, 5, 5)
    """
    return _conv_transpose(
        "conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    dilation: int | Sequence[int] = 1,
) -> Tensor:
    """Return the transposed convolution over three dimensions.

    Each element of the input, times the kernel, is added to a patch of the output. This computes the
    gradient of ``conv3d`` with respect to its input.

    Parameters
    ----------
    input
        Shape ``(batch, in_channels, depth, height, width)``, or without the batch.
    weight
        Shape ``(in_channels, out_channels / groups, *kernel)``.
    bias
        Shape ``(out_channels,)``.
    stride
        The distance between patches: one integer, or one for each spatial dimension. All sizes take
        this form.
    padding
        The number of elements to remove from both sides of the output.
    output_padding
        The number of elements to add at the end of the output. It selects one of the output sizes that match
        the input size.
    groups
        The number of groups of channels.
    dilation
        The distance between the elements of a patch.

    Returns
    -------
    Shape ``(batch, out_channels, depth, height, width)``; each size is
    ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1``.

    Raises
    ------
    ValueError
        If shapes or options do not fit.
    TypeError
        If input or weight are integers.

    Examples
    --------
    >>> import nn, tensor
    >>> x, weight = tensor.ones((1, 2, 3, 3, 3)), tensor.ones((2, 3, 3, 3, 3))
    >>> nn.functional.conv_transpose3d(x, weight).shape
    (1, 3, 5, 5, 5)
    """
    return _conv_transpose(
        "conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
