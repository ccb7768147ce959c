"""Linear maps, look-ups and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nn.functional.checks import array_of, check_probability, floating_array_of, is_wanted
from nn.functional.derivatives import RULES
from tensor import Generator
from tensor.kernels import run_kernel
from tensor.lowlevel import (
    InvalidArgumentError,
    apply,
    apply_affine,
    apply_affine_then_relu,
    numbers_of,
    overwrite,
    wrap,
)

if TYPE_CHECKING:
    from tensor import Tensor
    from tensor.lowlevel import Array

_LINEAR = RULES["linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Parameters
    ----------
    input
        Shape ``(*, in_features)``.
    weight
        Shape ``(out_features, in_features)``.
    bias
        Shape ``(out_features,)``.

    Returns
    -------
    Shape ``(*, out_features)``.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.linear(tensor.ones((4, 3)), tensor.ones((2, 3))).shape
    (4, 2)
    """
    return apply_affine(_LINEAR, input, weight, bias)


def linear_then_relu(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return ``relu(linear(input, weight, bias))``, made in one block of memory, with the nodes of both."""
    return apply_affine_then_relu(_LINEAR, input, weight, bias)


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Return the rows of `weight` that `input` names.

    Parameters
    ----------
    input
        Integers of any shape ``(*)``, from 0 to the number of rows less 1.
    weight
        Shape ``(num_embeddings, embedding_dim)``.
    padding_idx
        A row that gets no gradient; negative ones count from the end.

    Returns
    -------
    Shape ``(*, embedding_dim)``.

    Raises
    ------
    IndexError
        If an index names no row.

    Examples
    --------
    >>> import nn, tensor
    >>> rows = tensor.tensor([[0.0, 1.0], [2.0, 3.0]])
    >>> nn.functional.embedding(tensor.tensor([1, 0, 1]), rows).tolist()
    [[2.0, 3.0], [0.0, 1.0], [2.0, 3.0]]
    """
    indices = array_of("embedding", "input", input)
    rows = array_of("embedding", "weight", weight)
    if indices.dtype.kind not in "iu":
        raise TypeError(
            f"embedding: input holds indices, integers, not {indices.dtype}: convert with input.long()"
        )
    if rows.ndim != 2:
        raise InvalidArgumentError(
            f"embedding: weight has shape (num_embeddings, embedding_dim), not {rows.shape}"
        )
    require_in_range("embedding: an index", indices, rows.shape[0])
    if padding_idx is not None:
        padding_idx = row_of(padding_idx, rows.shape[0])

    def kernel(rows: Array) -> Array:
        return rows.take(indices, 0)

    # The tensor of the indices: what it holds now is kept, whatever is written later.
    parameters = {"indices": input, "shape": rows.shape, "padding_idx": padding_idx}
    return apply(RULES["embedding"], kernel, (weight,), **parameters)


def require_in_range(what: str, indices: Array, size: int) -> None:
    """Raise IndexError unless all `indices` are from 0 to ``size - 1``."""
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        wrong = indices[(indices < 0) | (indices >= size)].ravel()[0]
        raise IndexError(f"{what} is {wrong}: it must be from 0 to {size - 1}")


def row_of(index: int, size: int) -> int:
    """Return which of `size` rows the padding `index` names: it may count from the end."""
    if not -size <= index < size:
        raise InvalidArgumentError(f"embedding: padding_idx is {index}, and there are rows 0 to {size - 1}")
    return index % size


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Return int64 zeros with a 1 at each class that `input` names, along a new last dimension.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.one_hot(tensor.tensor([2, 0])).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    indices = array_of("one_hot", "input", input)
    if indices.dtype.kind not in "iu":
        raise TypeError(
            f"one_hot: input holds classes, integers, not {indices.dtype}: convert with input.long()"
        )
    size = int(indices.max()) + 1 if num_classes == -1 and indices.size else max(num_classes, 0)
    require_in_range("one_hot: a class", indices, size)
    found = run_kernel(lambda: np.equal(indices[..., None], np.arange(size)).astype(np.int64))
    return wrap(found)


def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return `input` with each element zeroed with probability `p`, the others scaled by 1 / (1 - p).

    Parameters
    ----------
    input
        Any shape, floating.
    p
        From 0 to 1.
    training
        Without it `input` itself is returned.
    inplace
        Write over `input`.
    generator
        What the mask is drawn from; the default one otherwise.

    Examples
    --------
    >>> import nn, tensor
    >>> sorted(set(nn.functional.dropout(tensor.ones((50,)), 0.5).tolist()))
    [0.0, 2.0]
    """
    check_probability("dropout", p)
    x = floating_array_of("dropout", "input", input)
    if not training or p == 0:
        return input
    mask = run_kernel(_mask, x.shape, p, numbers_of(generator))
    scale = 1 / (1 - p) if p < 1 else 0.0

    def kernel(x: Array) -> Array:
        out = np.asarray(x * mask)
        out *= scale
        return out

    # An eighth of the mask's memory; packing takes 1 % of the time of a dropout, unpacking 3 %.
    bits = run_kernel(np.packbits, mask) if is_wanted(input) else None
    if not inplace:
        parameters = {"bits": bits, "scale": scale}
        return apply(RULES["dropout"], kernel, (input,), **parameters)

    def write(array: Array) -> None:
        np.multiply(array, mask, out=array)
        np.multiply(array, scale, out=array)

    overwrite(RULES["dropout"], input, write, (input,), bits=bits, scale=scale)
    return input


# Of the mask: 32 KiB of random words.
_DRAWN_AT_ONCE = 2**13


def _mask(shape: tuple[int, ...], p: float, numbers: np.random.Generator) -> Array:
    """Return False with probability `p`, to within 2**-32."""
    if p == 1:
        return np.zeros(shape, np.bool_)
    mask = np.empty(shape, np.bool_)
    flat, least = mask.reshape(-1), min(round(p * 2**32), 2**32 - 1)
    for start in range(0, flat.size, _DRAWN_AT_ONCE):
        part = flat[start : start + _DRAWN_AT_ONCE]
        # Two to a word: that takes 0.7 of the time of floats.
        chances = numbers.bit_generator.random_raw((part.size + 1) // 2).view(np.uint32)
        np.greater_equal(chances[: part.size], least, out=part)
        del chances  # before the next ones come
    return mask
