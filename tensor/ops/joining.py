"""Join tensors, and split a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tensor._errors import InvalidArgumentError, shown
from tensor.core.dims import dim_of
from tensor.core.promotion import promoted
from tensor.core.tensor import TensorCore
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply, over
from tensor.ops.expanding import broadcast_to
from tensor.ops.outputs import copy_out
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

_CONCAT = RULES["concat"]
_GETITEM = RULES["getitem"]
_STACK = RULES["stack"]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0, out: Tensor | None = None) -> Tensor:
    """Return `arrays` concatenated along `axis`. None flattens them first.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Raises
    ------
    ValueError
        If the list is empty, or the other sizes differ.

    Examples
    --------
    >>> import tensor
    >>> tensor.concat([tensor.ones((1, 2)), tensor.zeros((1, 2))]).tolist()
    [[1.0, 1.0], [0.0, 0.0]]
    """
    xs = _all("concat", arrays)
    if axis is None:
        xs, axis = [x.reshape(x.numel()) for x in xs], 0
    first = xs[0].shape
    place = dim_of("concat", axis, len(first))
    ends = [0]
    for i, x in enumerate(xs):
        shape = x.shape
        if (
            len(shape) != len(first)
            or shape[:place] != first[:place]
            or shape[place + 1 :] != first[place + 1 :]
        ):
            raise InvalidArgumentError(
                f"concat along dimension {axis}: all other sizes must be equal, but tensor 0 has shape "
                f"{first} and tensor {i} has {shape}"
            )
        ends.append(ends[-1] + shape[place])
    result = apply(
        _CONCAT, lambda *given: np.concatenate(promoted(given), place), xs, axis=place, ends=tuple(ends)
    )
    return result if out is None else copy_out("concat", xs, result, out)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Return `tensors` concatenated along `dim`. PyTorch's name of ``concat``.

    Examples
    --------
    >>> import tensor
    >>> tensor.cat((tensor.tensor([1]), tensor.tensor([2, 3]))).tolist()
    [1, 2, 3]
    """
    if isinstance(dim, TensorCore):
        raise TypeError("cat takes a list or tuple of tensors: write cat([x, y]), or cat([x, y], dim)")
    return concat(tensors, axis=dim)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0, out: Tensor | None = None) -> Tensor:
    """Return `arrays`, which have the same shape, stacked along a new dimension `axis`.

    With `out`, write the result to that tensor of the same shape. No gradient can be recorded then.

    Raises
    ------
    ValueError
        If the list is empty, or the shapes differ.

    Examples
    --------
    >>> import tensor
    >>> tensor.stack([tensor.ones((2,)), tensor.zeros((2,))], axis=1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    xs = _all("stack", arrays)
    first = xs[0].shape
    for i, x in enumerate(xs):
        if x.shape != first:
            raise InvalidArgumentError(
                f"stack: all shapes must be equal, but tensor 0 has {first} and tensor {i} has {x.shape}"
            )
    place = dim_of("stack", axis, len(first) + 1)
    result = apply(_STACK, lambda *given: np.stack(promoted(given), place), xs, axis=place)
    return result if out is None else copy_out("stack", xs, result, out)


def _all(op: str, arrays: Sequence[Tensor]) -> list[Tensor]:
    if not hasattr(arrays, "__iter__"):
        raise TypeError(f"{op} takes a list or tuple of tensors, not {type(arrays).__name__}")
    xs = [as_tensor(x) for x in arrays]
    if not xs:
        raise InvalidArgumentError(f"{op}: there are no tensors to join: the list is empty")
    return xs


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return views of the slices of `x` along `axis`, without that dimension.

    Examples
    --------
    >>> import tensor
    >>> [part.tolist() for part in tensor.unstack(tensor.tensor([[1, 2], [3, 4]]), axis=1)]
    [[1, 3], [2, 4]]
    """
    x = as_tensor(x)
    place = dim_of("unstack", axis, len(x.shape))
    return parts_of(x, place, range(x.shape[place]))


def parts_of(x: Tensor, place: int, indices: Iterable[int | slice]) -> tuple[Tensor, ...]:
    """Return ``x[...]`` for each of `indices` at dimension `place`. The indices are in range."""
    array = x._array
    if array is None:
        x._raise_disposed()
    before = (slice(None),) * place
    parts = []
    for i in indices:
        key = (*before, i, ...)
        parts.append(over(x, array, array[key], _GETITEM, (key,)))
    return tuple(parts)


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Return the coordinates of a grid as views, one for each of the 1-D `arrays`.

    Parameters
    ----------
    indexing
        ``"ij"``: dimension i runs along array i. ``"xy"``: the first two are exchanged.

    Examples
    --------
    >>> import tensor
    >>> x, y = tensor.meshgrid(tensor.tensor([1, 2]), tensor.tensor([3, 4, 5]))
    >>> x.tolist(), y.tolist()
    ([[1, 2], [1, 2], [1, 2]], [[3, 3], [4, 4], [5, 5]])
    """
    if indexing not in ("xy", "ij"):
        raise InvalidArgumentError(f"meshgrid: indexing must be 'xy' or 'ij', not {shown(indexing)}")
    xs = [as_tensor(x) for x in arrays]
    for i, x in enumerate(xs):
        if len(x.shape) > 1:
            raise InvalidArgumentError(
                f"meshgrid takes tensors of one dimension; tensor {i} has shape {x.shape}"
            )
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(xs)
    for x, place in zip(xs, places, strict=True):
        shape[place] = x.numel()
    grid = []
    for x, place in zip(xs, places, strict=True):
        sizes = [1] * len(xs)
        sizes[place] = -1 if x.numel() else 0
        grid.append(broadcast_to(x.reshape(sizes), tuple(shape)))
    return grid
