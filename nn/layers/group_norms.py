"""Group normalization."""

from __future__ import annotations

from nn import functional as F
from nn.layers.weighted import init_affine, new_parameter, require_size
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError, shown


@set_module("nn")
class GroupNorm(Module):
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

    Examples
    --------
    >>> import nn, tensor
    >>> nn.GroupNorm(2, 6)(tensor.ones((4, 6, 5))).shape
    (4, 6, 5)
    """

    weight: Parameter | None
    bias: Parameter | None

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
        super().__init__()
        require_cpu(device)
        require_size(type(self).__name__, "num_channels", num_channels)
        if type(num_groups) is not int or num_groups < 1 or num_channels % num_groups:
            raise InvalidArgumentError(
                f"GroupNorm: num_groups must divide num_channels, {num_channels}, and {shown(num_groups)} "
                "does not"
            )
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        sizes = (num_channels,)
        self.register_parameter("weight", new_parameter(sizes, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(sizes, dtype) if affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        init_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
