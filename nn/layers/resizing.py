"""Upsampling, pixel shuffle, channel shuffle, unfold and fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional as F
from nn.functional.windows import sizes_given
from nn.module.module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nn.functional.windows import Sizes
    from tensor import Tensor


class Upsample(Module):
    """Resizes signals, images or volumes by interpolation.

    Input ``(batch, channels, *sizes)`` with one to three sizes.

    Parameters
    ----------
    size, scale_factor, mode, align_corners, recompute_scale_factor
        See ``nn.functional.interpolate``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Upsample(scale_factor=2, mode="bilinear")(tensor.ones((1, 3, 4, 5))).shape
    (1, 3, 8, 10)
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size: Any = sizes_given(size)
        self.scale_factor: Any = (
            tuple([float(n) for n in scale_factor])
            if isinstance(scale_factor, (tuple, list))
            else float(scale_factor)  # type: ignore[arg-type]
            if scale_factor
            else None
        )
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Interpolate."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """Return the size or scale factor, and the mode."""
        what = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest-neighbour upsampling of images: PyTorch's older name for ``Upsample``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.UpsamplingNearest2d(scale_factor=2)(tensor.ones((1, 3, 4, 5))).shape
    (1, 3, 8, 10)
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear upsampling of images with aligned corners: PyTorch's older name for ``Upsample``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.UpsamplingBilinear2d(size=(8, 10))(tensor.ones((1, 3, 4, 5))).shape
    (1, 3, 8, 10)
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


class PixelShuffle(Module):
    """Pixel shuffle: moves channels to pixels of a `upscale_factor` times larger image (Shi et al., 2016).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.PixelShuffle(3)(tensor.ones((1, 9, 4, 4))).shape
    (1, 1, 12, 12)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the rearranged input."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Inverse of ``PixelShuffle``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.PixelUnshuffle(3)(tensor.ones((1, 1, 12, 12))).shape
    (1, 9, 4, 4)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the rearranged input."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Channel shuffle: interleaves the channels of `groups` groups (Zhang et al., 2017).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.ChannelShuffle(2)(tensor.arange(4).reshape((1, 4, 1))).flatten().tolist()
    [0, 2, 1, 3]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Return the input with shuffled channels."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """Return the number of groups."""
        return f"groups={self.groups}"


class Unfold(Module):
    """Extracts patches as columns (im2col): ``(batch, channels * elements of a kernel, patches)``.

    Parameters
    ----------
    kernel_size, dilation, padding, stride
        See ``nn.functional.unfold``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Unfold(2)(tensor.ones((1, 3, 4, 5))).shape
    (1, 12, 12)
    """

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size: Any = sizes_given(kernel_size)
        self.dilation: Any = sizes_given(dilation)
        self.padding: Any = sizes_given(padding)
        self.stride: Any = sizes_given(stride)

    def forward(self, input: Tensor) -> Tensor:
        """Return the patches."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the options."""
        return (
            f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, "
            f"stride={self.stride}"
        )


class Fold(Module):
    """Sums columns as overlapping patches (col2im): ``(batch, channels, height, width)``.

    Parameters
    ----------
    output_size, kernel_size, dilation, padding, stride
        See ``nn.functional.fold``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.Fold((4, 5), 2)(tensor.ones((1, 12, 12))).shape
    (1, 3, 4, 5)
    """

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size: Any = sizes_given(output_size)
        self.kernel_size: Any = sizes_given(kernel_size)
        self.dilation, self.padding, self.stride = map(sizes_given, (dilation, padding, stride))

    def forward(self, input: Tensor) -> Tensor:
        """Return the sum of the patches."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the options."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, stride={self.stride}"
        )
