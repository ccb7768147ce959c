"""Upsampling, pixel shuffle, channel shuffle, unfold and fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nn import functional as F
from nn.functional.windows import Sizes, sizes_given
from nn.layers.function_layers import Unary
from nn.module.docstrings import example
from nn.module.options import options


@options
@example('nn.Upsample(scale_factor=2, mode="bilinear")(tensor.ones((1, 3, 4, 5))).shape', (1, 3, 8, 10))
class Upsample(Unary, function=F.interpolate):
    """Resizes signals, images or volumes by interpolation.

    Input ``(batch, channels, *sizes)`` with one to three sizes. See ``nn.functional.interpolate``.
    """

    size: int | Sequence[int] | None = None
    scale_factor: float | Sequence[float] | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def _set_options(self, given: dict[str, Any]) -> None:
        factors = given["scale_factor"]
        is_each = isinstance(factors, (tuple, list))
        given["scale_factor"] = tuple(map(float, factors)) if is_each else float(factors) if factors else None
        super()._set_options({**given, "size": sizes_given(given["size"])})

    def extra_repr(self) -> str:
        """Return the size or scale factor, and the mode."""
        what = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{what}, mode={self.mode!r}"


@example("nn.UpsamplingNearest2d(scale_factor=2)(tensor.ones((1, 3, 4, 5))).shape", (1, 3, 8, 10))
class UpsamplingNearest2d(Upsample):
    """Nearest-neighbor upsampling of images: PyTorch's older name for ``Upsample``."""

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


@example("nn.UpsamplingBilinear2d(size=(8, 10))(tensor.ones((1, 3, 4, 5))).shape", (1, 3, 8, 10))
class UpsamplingBilinear2d(Upsample):
    """Bilinear upsampling of images with aligned corners: PyTorch's older name for ``Upsample``."""

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


@options
@example("nn.PixelShuffle(3)(tensor.ones((1, 9, 4, 4))).shape", (1, 1, 12, 12))
class PixelShuffle(Unary, function=F.pixel_shuffle):
    """Pixel shuffle: moves channels into images of `upscale_factor` times the sizes (Shi et al., 2016)."""

    upscale_factor: int


@options
@example("nn.PixelUnshuffle(3)(tensor.ones((1, 1, 12, 12))).shape", (1, 9, 4, 4))
class PixelUnshuffle(Unary, function=F.pixel_unshuffle):
    """Inverse of ``PixelShuffle``."""

    downscale_factor: int


@options
@example("nn.ChannelShuffle(2)(tensor.arange(4).reshape((1, 4, 1))).flatten().tolist()", [0, 2, 1, 3])
class ChannelShuffle(Unary, function=F.channel_shuffle):
    """Channel shuffle: interleaves the channels of `groups` groups (Zhang et al., 2017)."""

    groups: int


class _Patches(Unary):
    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options({name: sizes_given(sizes) for name, sizes in given.items()})


@options
@example("nn.Unfold(2)(tensor.ones((1, 3, 4, 5))).shape", (1, 12, 12))
class Unfold(_Patches, function=F.unfold):
    """Extracts patches as columns (im2col): ``(batch, channels * elements of a kernel, patches)``.

    See ``nn.functional.unfold``.
    """

    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1


@options
@example("nn.Fold((4, 5), 2)(tensor.ones((1, 12, 12))).shape", (1, 3, 4, 5))
class Fold(_Patches, function=F.fold):
    """Sums columns as overlapping patches (col2im): ``(batch, channels, height, width)``.

    See ``nn.functional.fold``.
    """

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1
