"""Layer normalization, RMS normalization and local response normalization."""

from __future__ import annotations

from collections.abc import Sequence

from nn import functional as F
from nn.layers.weighted import init_affine, new_parameter
from nn.module.module import Module
from nn.module.parameter import Parameter
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._devices import require_cpu
from tensor._dtypes import DtypeLike


@set_module("nn")
class LayerNorm(Module):
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

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: DtypeLike | None = None,
    ) -> None:
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        super().__init__()
        require_cpu(device)
        self.normalized_shape: tuple[int, ...] = sizes
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        has_bias = elementwise_affine and bias
        self.register_parameter("weight", new_parameter(sizes, dtype) if elementwise_affine else None)
        self.register_parameter("bias", new_parameter(sizes, dtype) if has_bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1 and the bias to 0."""
        init_affine(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize, scale and shift."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


@set_module("nn")
class RMSNorm(Module):
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

    Examples
    --------
    >>> import nn, tensor
    >>> nn.RMSNorm(2)(tensor.tensor([3.0, 3.0])).tolist()
    [1.0, 1.0]
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
        sizes = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        super().__init__()
        require_cpu(device)
        self.normalized_shape: tuple[int, ...] = sizes
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", new_parameter(sizes, dtype) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the weight to 1."""
        init_affine(self.weight, None)

    def forward(self, input: Tensor) -> Tensor:
        """Normalize and scale."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and eps."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


@set_module("nn")
class LocalResponseNorm(Module):
    """Local response normalization over neighboring channels (Krizhevsky et al., 2012).

    See ``nn.functional.local_response_norm``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.LocalResponseNorm(2)(tensor.ones((4, 3, 5))).shape
    (4, 3, 5)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        """Return the normalized input."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """Return the options."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
