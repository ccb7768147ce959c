"""Fractional max pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn.module.module import Module
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._errors import InvalidArgumentError, shown

if TYPE_CHECKING:
    from nn.functional.rare.fractional_pooling import Ratios
    from nn.functional.windows import Sizes


class _FractionalMaxPool(Module):
    """Base class of fractional max pooling layers."""

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
            raise InvalidArgumentError(f"{name}: pass either output_size or output_ratio")
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else [output_ratio]
        if not all(ratio is None or 0 < ratio < 1 for ratio in ratios):
            raise InvalidArgumentError(
                f"{name}: output_ratio must be between 0 and 1, not {shown(output_ratio)}"
            )
        self.register_buffer("_random_samples", _random_samples)
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices


@set_module("nn")
class FractionalMaxPool2d(_FractionalMaxPool):
    """Fractional max pooling with random windows, over two dimensions.

    See ``nn.functional.fractional_max_pool2d``.

    Parameters
    ----------
    kernel_size
        The size of a window: one integer, or one for each spatial dimension.
    output_size, output_ratio
        Exactly one of them: the sizes of the result, or their ratio to the input's sizes, between 0 and 1.
    return_indices
        Also return the indices of the maxima, for ``MaxUnpool2d``.
    _random_samples
        Random numbers from 0 to 1, of shape ``(batch, channels, 2)``; from the default generator for
        None.

    Raises
    ------
    ValueError
        If neither or both of `output_size` and `output_ratio` are given, or a ratio is out of range.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.FractionalMaxPool2d(2, output_ratio=0.5)(tensor.ones((2, 3, 8, 6))).shape
    (2, 3, 4, 3)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.fractional_max_pool2d(  # type: ignore[return-value]
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


@set_module("nn")
class FractionalMaxPool3d(_FractionalMaxPool):
    """Fractional max pooling with random windows, over three dimensions.

    See ``nn.functional.fractional_max_pool3d``.

    Parameters
    ----------
    kernel_size
        The size of a window: one integer, or one for each spatial dimension.
    output_size, output_ratio
        Exactly one of them: the sizes of the result, or their ratio to the input's sizes, between 0 and 1.
    return_indices
        Also return the indices of the maxima, for ``MaxUnpool3d``.
    _random_samples
        Random numbers from 0 to 1, of shape ``(batch, channels, 3)``; from the default generator for
        None.

    Raises
    ------
    ValueError
        If neither or both of `output_size` and `output_ratio` are given, or a ratio is out of range.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.FractionalMaxPool3d(2, output_ratio=0.5)(tensor.ones((2, 3, 8, 6, 4))).shape
    (2, 3, 4, 3, 2)
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the maximum of each window; with `return_indices`, a tuple with their indices."""
        return F.fractional_max_pool3d(  # type: ignore[return-value]
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )
