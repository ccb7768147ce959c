"""Linear maps, embeddings, and one-hot encodings."""

from __future__ import annotations

import numpy as np

from nn.functional.checks import array_of
from nn.functional.derivatives import RULES
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import widening, wrap, writing
from tensor.kernels import run_kernel, widen
from tensor.ops.dispatch import apply, apply_affine

_LINEAR = RULES["linear"]


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``.

    Parameters
    ----------
    input
        Shape ``(*, in_features)``.
    weight
        Shape ``(out_features, in_features)``, or ``(in_features,)`` for an output without the last dimension.
    bias
        Shape ``(out_features,)``; for one output ``()``.

    Returns
    -------
    Shape ``(*, out_features)``, or ``(*)``.

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


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of `weight` at the indices `input`.

    Parameters
    ----------
    input
        Integers of any shape ``(*)``, from 0 to the number of rows minus 1.
    weight
        Shape ``(num_embeddings, embedding_dim)``.
    padding_idx
        The index of a row without a gradient. A negative index counts from the end.
    max_norm, norm_type
        First scale the used rows of `weight` down to `max_norm`, in place, if their norm of degree
        `norm_type` is larger.
    scale_grad_by_freq
        Divide the gradient of each row by the number of its uses.
    sparse
        Accepted for compatibility with PyTorch. Gradients are dense.

    Returns
    -------
    Shape ``(*, embedding_dim)``.

    Raises
    ------
    IndexError
        If an index is out of range.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.embedding(tensor.tensor([1, 1]), tensor.tensor([[2.0], [3.0]])).tolist()
    [[3.0], [3.0]]
    """
    del sparse
    indices = array_of("embedding", "input", input)
    rows = array_of("embedding", "weight", weight)
    require_indices("embedding", "input", indices)
    if rows.ndim != 2:
        raise InvalidArgumentError(
            f"embedding: weight must have shape (num_embeddings, embedding_dim), not {rows.shape}"
        )
    require_in_range("embedding", indices, rows.shape[0])
    if padding_idx is not None:
        padding_idx = row_of(padding_idx, rows.shape[0])
    if max_norm is not None:
        shrink_rows(weight, indices, max_norm, norm_type)

    def kernel(rows: Array) -> Array:
        return rows.take(indices, 0)

    # Save the tensor of indices instead of its array, so that later writes do not change the saved values.
    parameters = {
        "indices": input,
        "shape": rows.shape,
        "padding_idx": padding_idx,
        "scale_grad_by_freq": scale_grad_by_freq,
    }
    return apply(RULES["embedding"], kernel, (weight,), **parameters)


def require_indices(name: str, what: str, indices: Array) -> None:
    """Raise TypeError unless `indices` are integers."""
    if indices.dtype.kind not in "iu":
        raise TypeError(
            f"{name}: {what} must hold integers, not {indices.dtype}: convert it with {what}.long()"
        )


def shrink_rows(weight: Tensor, indices: Array, max_norm: float, norm_type: float) -> Array:
    """Scale the rows at `indices` down to `max_norm` if their norm is larger, and return the array."""
    used = np.unique(indices)
    with writing(weight) as rows:
        wide = widen(rows[used])
        norms = np.linalg.norm(wide, norm_type, axis=1)
        too_long = norms > max_norm
        factors = (max_norm / (norms[too_long] + 1e-7))[:, None].astype(wide.dtype)
        rows[used[too_long]] = wide[too_long] * factors
    return array_of("embedding", "weight", weight)


def require_in_range(name: str, indices: Array, size: int) -> None:
    """Raise IndexError unless all `indices` are from 0 to ``size - 1``."""
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        wrong = indices[(indices < 0) | (indices >= size)].ravel()[0]
        raise IndexError(f"{name}: indices must be from 0 to {size - 1}, but input holds {wrong}")


def row_of(index: int, size: int) -> int:
    """Return the padding `index` as an index from 0. A negative one counts from the end of `size` rows."""
    if not -size <= index < size:
        raise InvalidArgumentError(
            f"embedding: padding_idx must be from {-size} to {size - 1}, because weight has {size} rows, not "
            f"{index}"
        )
    return index % size


def one_hot(input: Tensor, num_classes: int = -1) -> Tensor:
    """Return the one-hot encoding of the class indices `input`: int64, with a new last dimension.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.one_hot(tensor.tensor([2, 0])).tolist()
    [[0, 0, 1], [1, 0, 0]]
    """
    indices = array_of("one_hot", "input", input)
    require_indices("one_hot", "input", indices)
    if num_classes == -1 and not indices.size:
        raise ValueError("one_hot: without elements, the number of classes must be given: pass num_classes=")
    size = int(indices.max()) + 1 if num_classes == -1 and indices.size else max(num_classes, 0)
    if indices.size and indices.min() < 0:
        raise IndexError(f"one_hot: class indices must be at least 0, but input holds {indices.min()}")
    if indices.size and indices.max() >= size:
        raise IndexError(
            f"one_hot: class indices must be below num_classes, {num_classes}, but input holds "
            f"{indices.max()}"
        )
    found = run_kernel(lambda: np.equal(indices[..., None], np.arange(size)).astype(np.int64))
    return wrap(found)


@widening
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input1 @ weight[i] @ input2 + bias[i]`` for each output feature i.

    Parameters
    ----------
    input1, input2
        Shapes ``(*, in1_features)`` and ``(*, in2_features)``, equal except for the last dimension.
    weight
        Shape ``(out_features, in1_features, in2_features)``.
    bias
        Shape ``(out_features,)``.

    Returns
    -------
    Shape ``(*, out_features)``.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([[1.0, 2.0]]), tensor.tensor([[3.0]])
    >>> nn.functional.bilinear(x, y, tensor.ones((4, 2, 1))).tolist()
    [[9.0, 9.0, 9.0, 9.0]]
    """
    x1, x2 = array_of("bilinear", "input1", input1), array_of("bilinear", "input2", input2)
    w = array_of("bilinear", "weight", weight)
    if (
        w.ndim != 3
        or x1.ndim < 1
        or x1.shape[:-1] != x2.shape[:-1]
        or (x1.shape[-1], x2.shape[-1]) != w.shape[1:]
    ):
        raise InvalidArgumentError(
            "bilinear: the shapes of input1, input2 and weight must be (*, in1_features), (*, in2_features) "
            f"and (out_features, in1_features, in2_features), not {x1.shape}, {x2.shape} and {w.shape}"
        )
    if bias is not None and array_of("bilinear", "bias", bias).shape != w.shape[:1]:
        raise InvalidArgumentError(f"bilinear: bias must have shape {w.shape[:1]}, not {bias.shape}")
    left = linear(input1, weight.transpose(1, 2).reshape((w.shape[0] * w.shape[2], w.shape[1])))
    parts = left.reshape((*x1.shape[:-1], w.shape[0], w.shape[2])) * input2.unsqueeze(-2)
    out = parts.sum(dim=-1)
    return out if bias is None else out + bias
