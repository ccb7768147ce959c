"""Pools whose windows begin at random, as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from nn import functional as F
from nn.module.module import Module
from tensor.lowlevel import InvalidArgumentError, shown

if TYPE_CHECKING:
    from nn.functional.fractional_pooling import Ratios
    from nn.functional.windows import Sizes
    from tensor import Tensor


class _FractionalMaxPool(Module):
    _random_samples: Tensor | None

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: Ratios | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if (output_size is None) == (output_ratio is None):
            raise InvalidArgumentError(f"{name}: give either an output_size or an output_ratio")
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else [output_ratio]
        if not all(ratio is None or 0 < ratio < 1 for ratio in ratios):
            raise InvalidArgumentError(
                f"{name}: output_ratio lies between 0 and 1, not {shown(output_ratio)}"
            )
        self.kernel_size = kernel_size
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = output_size
        self.output_ratio = output_ratio


class FractionalMaxPool2d(_FractionalMaxPool):
    """Largest elements of windows that begin at random; see ``functional.fractional_max_pool2d``.

    Parameters
    ----------
    kernel_size
        The size of a window: one integer, or one for each dimension of space.
    output_size, output_ratio
        The sizes of the result, or their share of the input's, between 0 and 1: one of both.
    return_indices
        Return also where the largest elements lie, as ``MaxUnpool2d`` takes them.

    Raises
    ------
    ValueError
        If none or both of `output_size` and `output_ratio` are given, or a ratio is out of its range.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.FractionalMaxPool2d(2, output_ratio=0.5)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the largest element of each window; with `return_indices`, a tuple with their places."""
        found: Any = F.fractional_max_pool2d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )
        return cast("Tensor", found)


class FractionalMaxPool3d(_FractionalMaxPool):
    """Largest elements of windows that begin at random, over three dimensions: see ``FractionalMaxPool2d``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.FractionalMaxPool3d(2, output_size=(4, 3, 2))(tensor.ones((2, 3, 8, 6, 5))).shape
    (2, 3, 4, 3, 2)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the largest element of each window; with `return_indices`, a tuple with their places."""
        found: Any = F.fractional_max_pool3d(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )
        return cast("Tensor", found)
