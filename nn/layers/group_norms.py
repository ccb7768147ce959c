"""Group normalization."""

from __future__ import annotations

from dataclasses import KW_ONLY, InitVar
from typing import TYPE_CHECKING, ClassVar

from nn import functional as F
from nn.layers.weighted import Affine
from nn.module.docstrings import example
from nn.module.options import option, options
from tensor import Tensor
from tensor.lowlevel import DtypeLike, InvalidArgumentError, shown

if TYPE_CHECKING:
    from nn.layers.weighted import Shape


@options
@example("nn.GroupNorm(2, 6)(tensor.ones((4, 6, 5))).shape", (4, 6, 5))
class GroupNorm(Affine):
    """Group normalization: normalizes each sample over groups of channels (Wu and He, 2018).

    Input and output ``(batch, num_channels, *)``.

    Parameters
    ----------
    num_groups
        The number of groups. It must divide `num_channels`.
    num_channels
        The number of channels.
    eps
        Added to the variance.
    affine
        Whether a weight (initially 1) and a bias (initially 0) scale and shift each channel.
    """

    num_groups: int
    num_channels: int
    eps: float = 1e-5
    affine: bool = True
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None
    _: KW_ONLY
    _bias: InitVar[bool] = option(default=True, alias="bias")

    _sizes = ("num_channels",)
    _texts: ClassVar = {**Affine._texts, "bias": "Whether the affine part has a bias."}

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:
        groups, channels = self.num_groups, self.num_channels
        if type(groups) is not int or groups < 1 or channels % groups:
            raise InvalidArgumentError(
                f"GroupNorm: num_groups must divide num_channels, {channels}, and {shown(groups)} does not"
            )
        shape = (channels,) if self.affine else None
        return {"weight": shape, "bias": shape if has_bias else None}

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
