"""Fractional max pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

from nn import functional as F
from nn.layers.dimensions import Dimensional
from tensor.lowlevel import InvalidArgumentError, shown

if TYPE_CHECKING:
    from collections.abc import Callable

    from nn.functional.rare.fractional_pooling import Ratios
    from nn.functional.windows import Sizes
    from tensor import Tensor


class _FractionalMaxPool(Dimensional):
    _functions: ClassVar[dict[int, Callable[..., Any]]] = {
        2: F.fractional_max_pool2d,
        3: F.fractional_max_pool3d,
    }
    _sections = """
        See ``nn.functional.fractional_max_pool{dims}d``.

        Parameters
        ----------
        kernel_size
            The size of a window: one integer, or one for each spatial dimension.
        output_size, output_ratio
            The output size, or its ratio to the input size, between 0 and 1. Pass exactly one.
        return_indices
            Also return the indices of the maxima, for ``MaxUnpool{dims}d``.

        Raises
        ------
        ValueError
            If neither or both of `output_size` and `output_ratio` are given, or a ratio is out of range.

        Examples
        --------
        >>> import nn, tensor
        >>> nn.FractionalMaxPool{dims}d(2, output_ratio=0.5)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape
        (2, 3, {sizes[4,3,2]})
    """
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

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        found = self._functions[self._dims](
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )
        return cast("Tensor", found)


class FractionalMaxPool2d(_FractionalMaxPool, dims=2):
    """Fractional max pooling with random windows, over two dimensions."""


class FractionalMaxPool3d(_FractionalMaxPool, dims=3):
    """Fractional max pooling with random windows, over three dimensions."""
