"""Group normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn.layers.weighted import Scaling, require_size
from nn.module.docstrings import example
from tensor.lowlevel import InvalidArgumentError, shown

if TYPE_CHECKING:
    from tensor import Tensor
    from tensor.lowlevel import DtypeLike


@example("nn.GroupNorm(2, 6)(tensor.ones((4, 6, 5))).shape", (4, 6, 5))
class GroupNorm(Scaling):
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
    dtype
        The dtype of the parameters; float32 for None.
    bias
        Whether the affine part has a bias.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(device)
        require_size("GroupNorm", "num_channels", num_channels)
        if type(num_groups) is not int or num_groups < 1 or num_channels % num_groups:
            raise InvalidArgumentError(
                f"GroupNorm: num_groups must divide num_channels, {num_channels}, but {shown(num_groups)} "
                f"does not"
            )
        self.num_groups: int = num_groups
        self.num_channels: int = num_channels
        self.eps: float = eps
        self.affine: bool = affine
        sizes = (num_channels,) if affine else None
        self._add_parameters(sizes, sizes if bias else None, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
