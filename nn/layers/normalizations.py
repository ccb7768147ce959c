"""Layer normalization, RMS normalization and local response normalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar
from typing import TYPE_CHECKING, Any, ClassVar

from nn import functional as F
from nn.layers.function_layers import Unary
from nn.layers.weighted import Affine, Scaling
from nn.module.docstrings import example
from nn.module.options import option, options
from tensor import Tensor
from tensor.lowlevel import DtypeLike

if TYPE_CHECKING:
    from nn.layers.weighted import Shape


class _LastDimensions(Scaling):
    """Base class of norms over the last dimensions."""

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    _texts: ClassVar = {
        **Scaling._texts,
        "normalized_shape": "The sizes of the last dimensions, over which to normalize.",
        "elementwise_affine": "Whether a weight, initially 1, scales the result.",
    }

    def _set_options(self, given: dict[str, Any]) -> None:
        sizes = given["normalized_shape"]
        given["normalized_shape"] = (sizes,) if isinstance(sizes, int) else tuple(sizes)
        super()._set_options(given)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


@options
@example(
    "y = nn.LayerNorm(2)(tensor.tensor([[1.0, 3.0]])); [round(v, 3) for v in y[0].tolist()]", [-1.0, 1.0]
)
class LayerNorm(_LastDimensions, Affine):
    """Layer normalization: normalizes each sample over its last dimensions (Ba et al., 2016).

    Input and output ``(*, *normalized_shape)``.

    Parameters
    ----------
    eps
        Added to the variance.
    bias
        Whether a bias, initially 0, is added too.
    """

    _normalized_shape: InitVar[int | Sequence[int]] = option(alias="normalized_shape")
    eps: float = 1e-5
    elementwise_affine: bool = True
    _bias: InitVar[bool] = option(default=True, alias="bias")
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:
        shape = self.normalized_shape if self.elementwise_affine else None
        return {"weight": shape, "bias": shape if has_bias else None}

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        return f"{super().extra_repr()}, bias={self.bias is not None}"


@options
@example("nn.RMSNorm(2)(tensor.tensor([3.0, 3.0])).tolist()", [1.0, 1.0])
class RMSNorm(_LastDimensions):
    """RMS normalization: divides by the root mean square (Zhang and Sennrich, 2019).

    Parameters
    ----------
    eps
        Added to the mean square; the dtype's machine epsilon for None.
    dtype
        The dtype of the weight; float32 for None.
    """

    _normalized_shape: InitVar[int | Sequence[int]] = option(alias="normalized_shape")
    eps: float | None = None
    elementwise_affine: bool = True
    device: InitVar[str | None] = None
    dtype: InitVar[DtypeLike | None] = None

    def _shapes(self, has_bias: bool) -> dict[str, Shape | None]:  # noqa: ARG002
        return {"weight": self.normalized_shape if self.elementwise_affine else None}

    def forward(self, input: Tensor) -> Tensor:
        """Normalize and scale."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)


@options
@example("nn.LocalResponseNorm(2)(tensor.ones((4, 3, 5))).shape", (4, 3, 5))
class LocalResponseNorm(Unary, function=F.local_response_norm):
    """Local response normalization over neighboring channels (Krizhevsky et al., 2012).

    See ``nn.functional.local_response_norm``.
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
