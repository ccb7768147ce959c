"""Methods that split a tensor into parts, in addition to ``split`` and ``chunk``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_data, as_tensor

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class Dividing(TensorCore):
    """Methods that split a dimension into a number of parts, or at given indices."""

    __slots__ = ()

    def tensor_split(
        self, indices_or_sections: int | Sequence[int] | Tensor, dim: int = 0
    ) -> tuple[Tensor, ...]:
        """Return views of parts along `dim`: a number of nearly equal parts, or the parts between indices.

        Examples
        --------
        >>> import tensor
        >>> [x.tolist() for x in tensor.tensor([1, 2, 3]).tensor_split(2)]
        [[1, 2], [3]]
        >>> [x.tolist() for x in tensor.tensor([1, 2, 3]).tensor_split((1,))]
        [[1], [2, 3]]
        """
        x = as_tensor(self)
        place = dim_of("tensor_split", dim, x.ndim)
        given = indices_or_sections
        if isinstance(given, TensorCore):
            if given.dtype != np.int64 or as_tensor(given).ndim > 1:
                raise InvalidArgumentError(
                    "tensor_split takes a number of parts, or a vector of int64 indices"
                )
            given = as_data(given, None).tolist()
        size = x.shape[place]
        if isinstance(given, int):
            if given < 1:
                raise InvalidArgumentError(
                    f"tensor_split: the number of parts must be at least 1, not {given}"
                )
            least, more = divmod(size, given)
            ends = np.cumsum([least + (i < more) for i in range(given - 1)]).tolist()
        else:
            ends = [int(i) for i in given]
        before = (slice(None),) * place
        starts = [None, *ends]
        return tuple(x[(*before, slice(a, b))] for a, b in zip(starts, [*ends, None], strict=True))

    def hsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        """Return views of parts along the second dimension, or along the only dimension of a vector.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((2, 4)).hsplit(2)]
        [(2, 2), (2, 2)]
        """
        return _equal_parts("hsplit", as_tensor(self), indices_or_sections, 1, 1)

    def vsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        """Return views of parts along the first dimension.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((4, 2)).vsplit(2)]
        [(2, 2), (2, 2)]
        """
        return _equal_parts("vsplit", as_tensor(self), indices_or_sections, 0, 2)

    def dsplit(self, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
        """Return views of parts along the third dimension.

        Examples
        --------
        >>> import tensor
        >>> [x.shape for x in tensor.ones((2, 2, 4)).dsplit(2)]
        [(2, 2, 2), (2, 2, 2)]
        """
        return _equal_parts("dsplit", as_tensor(self), indices_or_sections, 2, 3)

    def split_with_sizes(self, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
        """Return views of parts of these sizes along `dim`.

        Examples
        --------
        >>> import tensor
        >>> [x.tolist() for x in tensor.tensor([1, 2, 3]).split_with_sizes([1, 2])]
        [[1], [2, 3]]
        """
        return as_tensor(self).split(list(split_sizes), dim)

    @composite
    def unfold(self, dimension: int, size: int, step: int) -> Tensor:
        """Return a copy of all windows of `size` elements along `dimension`, `step` elements apart.

        `dimension` counts the windows, and a new last dimension has their elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
        [[1, 2], [2, 3], [3, 4]]
        """
        x = as_tensor(self)
        line = x.reshape(1) if x.ndim == 0 else x
        place = dim_of("unfold", dimension, line.ndim)
        if not 0 <= size <= line.shape[place]:
            raise InvalidArgumentError(
                f"unfold: a window of {size} does not fit dimension {dimension} of size {line.shape[place]}"
            )
        if step < 1:
            raise InvalidArgumentError(f"unfold: step must be at least 1, not {step}")
        if x.ndim == 0:
            return line[:size]
        starts = np.arange(0, line.shape[place] - size + 1, step)
        windows = line[(*[slice(None)] * place, starts[:, None] + np.arange(size))]
        return windows.movedim(place + 1, -1)


def _equal_parts(
    name: str, x: Tensor, parts: int | Sequence[int], dim: int, min_dims: int
) -> tuple[Tensor, ...]:
    if x.ndim < min_dims:
        raise InvalidArgumentError(
            f"{name} takes a tensor of at least {min_dims} dimensions, not shape {x.shape}"
        )
    place = 0 if x.ndim == 1 else dim
    if isinstance(parts, int) and parts > 0 and x.shape[place] % parts:
        raise InvalidArgumentError(
            f"{name}: dimension {place} of shape {x.shape} can't be split into {parts} equal parts: write "
            f"x.tensor_split({parts}, dim={place}) for parts of different sizes"
        )
    return x.tensor_split(parts, place)
