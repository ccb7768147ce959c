"""Layer normalization, RMS normalization and local response normalization."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn import init
from nn.layers.function_layers import Unary
from nn.layers.weighted import Scaling, Weighted, new_parameter
from nn.module.docstrings import example
from nn.module.options import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nn.module.parameter import Parameter
    from tensor import Tensor
    from tensor.lowlevel import DtypeLike


def _as_sizes(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(Scaling):
    """Layer normalization: normalizes each sample over its last dimensions (Ba et al., 2016).

    Input and output ``(*, *normalized_shape)``.

    Parameters
    ----------
    normalized_shape
        The sizes of the last dimensions, over which to normalize.
    eps
        Added to the variance.
    elementwise_affine
        Whether a weight, initially 1, scales the result.
    bias
        Whether a bias, initially 0, is added too.
    dtype
        The dtype of the parameters; float32 for None.

    Examples
    --------
    >>> import nn, tensor
    >>> y = nn.LayerNorm(2)(tensor.tensor([[1.0, 3.0]]))
    >>> [round(v, 3) for v in y[0].tolist()]
    [-1.0, 1.0]
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(device)
        self.normalized_shape: tuple[int, ...] = _as_sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        sizes = self.normalized_shape if elementwise_affine else None
        self._add_parameters(sizes, sizes if bias else None, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        affine = f"elementwise_affine={self.elementwise_affine}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}, bias={self.bias is not None}"


@example("nn.RMSNorm(2)(tensor.tensor([3.0, 3.0])).tolist()", [1.0, 1.0])
class RMSNorm(Weighted):
    """RMS normalization: divides by the root mean square (Zhang and Sennrich, 2019).

    Parameters
    ----------
    normalized_shape
        The sizes of the last dimensions, over which to normalize.
    eps
        Added to the mean square; the dtype's machine epsilon for None.
    elementwise_affine
        Whether a weight, initially 1, scales the result.
    dtype
        The dtype of the weight; float32 for None.
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        super().__init__(device)
        self.normalized_shape: tuple[int, ...] = _as_sizes(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        sizes = self.normalized_shape
        self.register_parameter("weight", new_parameter(sizes, dtype) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize and scale."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        affine = f"elementwise_affine={self.elementwise_affine}"
        return f"{self.normalized_shape}, eps={self.eps}, {affine}"


@options
@example("nn.LocalResponseNorm(2)(tensor.ones((4, 3, 5))).shape", (4, 3, 5))
class LocalResponseNorm(Unary):
    """Local response normalization over neighbouring channels (Krizhevsky et al., 2012).

    See ``nn.functional.local_response_norm``.
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    _function = F.local_response_norm

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
