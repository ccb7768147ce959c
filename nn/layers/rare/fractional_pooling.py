"""Fractional max pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nn.layers.dimensions import Dimensional
from nn.module.options import options
from tensor import Tensor
from tensor.lowlevel import InvalidArgumentError, shown

if TYPE_CHECKING:
    from nn.functional.rare.fractional_pooling import Ratios
    from nn.functional.windows import Sizes


@options
class _FractionalMaxPool(Dimensional):
    kernel_size: Sizes
    output_size: Sizes | None = None
    output_ratio: Ratios | None = None
    return_indices: bool = False
    _random_samples: Tensor | None = None

    _family = "fractional_max_pool"
    _sections = """
        See ``nn.functional.fractional_max_pool{dims}d``.

        Parameters
        ----------
        return_indices
            Also return the indices of the maxima, for ``MaxUnpool{dims}d``.

        Raises
        ------
        ValueError
            If neither or both of `output_size` and `output_ratio` are given, or a ratio is out of range.
    """
    _example = (
        "nn.{name}(2, output_ratio=0.5)(tensor.ones((2, 3, {sizes[8,6,4]}))).shape",
        "(2, 3, {sizes[4,3,2]})",
    )

    def _set_options(self, given: dict[str, Any]) -> None:
        super().__init__()
        name, ratio = type(self).__name__, given["output_ratio"]
        if (given["output_size"] is None) == (ratio is None):
            raise InvalidArgumentError(f"{name}: pass either output_size or output_ratio")
        ratios = ratio if isinstance(ratio, (tuple, list)) else [ratio]
        if not all(ratio is None or 0 < ratio < 1 for ratio in ratios):
            raise InvalidArgumentError(f"{name}: output_ratio must be between 0 and 1, not {shown(ratio)}")
        self.register_buffer("_random_samples", given.pop("_random_samples"))
        for option, value in given.items():
            setattr(self, option, value)

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return type(self)._function(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool, dims=2):
    """Fractional max pooling with random windows, over two dimensions."""


class FractionalMaxPool3d(_FractionalMaxPool, dims=3):
    """Fractional max pooling with random windows, over three dimensions."""
