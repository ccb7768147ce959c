"""Upsampling, pixel shuffle, channel shuffle, unfold and fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn import functional as F
from nn.functional.windows import sizes_given
from nn.layers.function_layers import Unary
from nn.module.docstrings import example
from nn.module.module import Module
from nn.module.options import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nn.functional.windows import Sizes
    from tensor import Tensor


@example('nn.Upsample(scale_factor=2, mode="bilinear")(tensor.ones((1, 3, 4, 5))).shape', (1, 3, 8, 10))
class Upsample(Module):
    """Resizes signals, images or volumes by interpolation.

    Input ``(batch, channels, *sizes)`` with one to three sizes.

    Parameters
    ----------
    size, scale_factor, mode, align_corners, recompute_scale_factor
        See ``nn.functional.interpolate``.
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


@example("nn.UpsamplingNearest2d(scale_factor=2)(tensor.ones((1, 3, 4, 5))).shape", (1, 3, 8, 10))
class UpsamplingNearest2d(Upsample):
    """Nearest-neighbour upsampling of images: PyTorch's older name for ``Upsample``."""

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
class PixelShuffle(Unary):
    """Pixel shuffle: moves channels to pixels of a `upscale_factor` times larger image (Shi et al., 2016)."""

    upscale_factor: int

    _function = F.pixel_shuffle


@options
@example("nn.PixelUnshuffle(3)(tensor.ones((1, 1, 12, 12))).shape", (1, 9, 4, 4))
class PixelUnshuffle(Unary):
    """Inverse of ``PixelShuffle``."""

    downscale_factor: int

    _function = F.pixel_unshuffle


@options
@example("nn.ChannelShuffle(2)(tensor.arange(4).reshape((1, 4, 1))).flatten().tolist()", [0, 2, 1, 3])
class ChannelShuffle(Unary):
    """Channel shuffle: interleaves the channels of `groups` groups (Zhang et al., 2017)."""

    groups: int

    _function = F.channel_shuffle


class _Patches(Unary):
    def _set_options(self, given: dict[str, Any]) -> None:
        super()._set_options({name: sizes_given(sizes) for name, sizes in given.items()})


@options
@example("nn.Unfold(2)(tensor.ones((1, 3, 4, 5))).shape", (1, 12, 12))
class Unfold(_Patches):
    """Extracts patches as columns (im2col): ``(batch, channels * elements of a kernel, patches)``.

    See ``nn.functional.unfold``.
    """

    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1

    _function = F.unfold


@options
@example("nn.Fold((4, 5), 2)(tensor.ones((1, 12, 12))).shape", (1, 3, 4, 5))
class Fold(_Patches):
    """Sums columns as overlapping patches (col2im): ``(batch, channels, height, width)``.

    See ``nn.functional.fold``.
    """

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes = 1
    padding: Sizes = 0
    stride: Sizes = 1

    _function = F.fold
