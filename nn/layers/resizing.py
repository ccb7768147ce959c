"""Upsampling, pixel shuffle, channel shuffle, unfold and fold."""

from __future__ import annotations

from collections.abc import Sequence

from nn import functional as F
from nn.functional.windows import Sizes, sizes_given
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor


@set_module("nn")
class Upsample(Module):
    """Resizes signals, images or volumes by interpolation.

    Input ``(batch, channels, *sizes)`` with one to three sizes. See ``nn.functional.interpolate``.

    Parameters
    ----------
    size
        The sizes of the output: one integer, or one for each dimension.
    scale_factor
        The factor of each size, instead of `size`. The products are rounded down.
    mode
        ``"nearest"``, ``"nearest-exact"`` (the nearest mode of other libraries), ``"area"``; for one
        dimension ``"linear"``, for two ``"bilinear"``, ``"bicubic"`` and ``"lanczos"``, for three
        ``"trilinear"``.
    align_corners
        For the linear modes and the cubic mode: align the centres of the corner elements instead of their
        outer edges.
    recompute_scale_factor
        Compute positions with the ratio of the rounded sizes instead of `scale_factor`.

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
        self.size: int | Sequence[int] | None = sizes_given(size)
        self.scale_factor: float | tuple[float, ...] | None
        if isinstance(scale_factor, Sequence):
            self.scale_factor = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the resized input."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Return the size or scale factor, and the mode."""
        what = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{what}, mode={self.mode!r}"


@set_module("nn")
class UpsamplingNearest2d(Upsample):
    """Nearest-neighbor upsampling of images: PyTorch's older name for ``Upsample``.

    Parameters
    ----------
    size
        The size of the output: one integer, or height and width.
    scale_factor
        The ratio of output and input sizes: one number, or one for height and one for width. Pass either
        `size` or this.

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


@set_module("nn")
class UpsamplingBilinear2d(Upsample):
    """Bilinear upsampling of images with aligned corners: PyTorch's older name for ``Upsample``.

    Parameters
    ----------
    size
        The size of the output: one integer, or height and width.
    scale_factor
        The ratio of output and input sizes: one number, or one for height and one for width. Pass either
        `size` or this.

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


@set_module("nn")
class PixelShuffle(Module):
    """Pixel shuffle: moves channels into images of `upscale_factor` times the sizes (Shi et al., 2016).

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
        """Return larger images of fewer channels."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """Return the option."""
        return f"upscale_factor={self.upscale_factor!r}"


@set_module("nn")
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
        """Return smaller images of more channels."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """Return the option."""
        return f"downscale_factor={self.downscale_factor!r}"


@set_module("nn")
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
        """Return the option."""
        return f"groups={self.groups!r}"


@set_module("nn")
class Unfold(Module):
    """Extracts patches as columns (im2col): ``(batch, channels * elements of a kernel, patches)``.

    See ``nn.functional.unfold``.

    Parameters
    ----------
    kernel_size, dilation, padding, stride
        Define the patches, as for ``conv2d``: one integer, or one for height and one for width.

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
        self.kernel_size: Sizes = sizes_given(kernel_size)
        self.dilation: Sizes = sizes_given(dilation)
        self.padding: Sizes = sizes_given(padding)
        self.stride: Sizes = sizes_given(stride)

    def forward(self, input: Tensor) -> Tensor:
        """Return the patches as columns."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the options."""
        options = ("kernel_size", "dilation", "padding", "stride")
        return ", ".join([f"{name}={getattr(self, name)!r}" for name in options])


@set_module("nn")
class Fold(Module):
    """Sums columns as overlapping patches (col2im): ``(batch, channels, height, width)``.

    See ``nn.functional.fold``.

    Parameters
    ----------
    output_size
        Height and width of the output.
    kernel_size, dilation, padding, stride
        Define the patches of the output: see ``unfold``.

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
        self.output_size: Sizes = sizes_given(output_size)
        self.kernel_size: Sizes = sizes_given(kernel_size)
        self.dilation: Sizes = sizes_given(dilation)
        self.padding: Sizes = sizes_given(padding)
        self.stride: Sizes = sizes_given(stride)

    def forward(self, input: Tensor) -> Tensor:
        """Return the sum of the patches."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the options."""
        options = ("output_size", "kernel_size", "dilation", "padding", "stride")
        return ", ".join([f"{name}={getattr(self, name)!r}" for name in options])
