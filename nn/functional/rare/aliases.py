"""Second names of functions, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nn.functional.interpolation import interpolate
from nn.functional.max_pooling import (
    adaptive_max_pool1d,
    adaptive_max_pool2d,
    adaptive_max_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from nn.functional.rare.fractional_pooling import fractional_max_pool2d, fractional_max_pool3d
from nn.functional.shuffles import channel_shuffle
from tensor import Tensor


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return ``interpolate(input, size, scale_factor, mode="nearest")``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.upsample_nearest(tensor.ones((1, 1, 2, 3)), scale_factor=2).shape
    (1, 1, 4, 6)
    """
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Return ``interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.upsample_bilinear(tensor.ones((1, 1, 2, 3)), (5, 7)).shape
    (1, 1, 5, 7)
    """
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


native_channel_shuffle = channel_shuffle
adaptive_max_pool1d_with_indices: Callable[..., Any] = partial(adaptive_max_pool1d, return_indices=True)
adaptive_max_pool2d_with_indices: Callable[..., Any] = partial(adaptive_max_pool2d, return_indices=True)
adaptive_max_pool3d_with_indices: Callable[..., Any] = partial(adaptive_max_pool3d, return_indices=True)
max_pool1d_with_indices: Callable[..., Any] = partial(max_pool1d, return_indices=True)
max_pool2d_with_indices: Callable[..., Any] = partial(max_pool2d, return_indices=True)
max_pool3d_with_indices: Callable[..., Any] = partial(max_pool3d, return_indices=True)
fractional_max_pool2d_with_indices: Callable[..., Any] = partial(fractional_max_pool2d, return_indices=True)
fractional_max_pool3d_with_indices: Callable[..., Any] = partial(fractional_max_pool3d, return_indices=True)
