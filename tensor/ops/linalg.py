"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tensor._dtypes import DtypeLike
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of, dims_of
from tensor.ops import table
from tensor.ops.data import as_tensor
from tensor.ops.elementwise import conj, multiply
from tensor.ops.expanding import broadcast_tensors
from tensor.ops.messages import Operand
from tensor.ops.outputs import run_into
from tensor.ops.reductions import sum
from tensor.ops.shapes import expand_dims, permute_dims, reshape

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def matmul(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    """Return the product of matrices, `x1` of shape (..., n, k) and `x2` of shape (..., k, m).

    The leading dimensions broadcast. A vector of shape (k,) is a row if it is `x1`, and a column if it is
    `x2`; the result does not have its dimension. With `out`, write the result to that tensor of the same
    shape. No gradient can be recorded then.

    Raises
    ------
    ValueError
        If the sizes k differ, an operand is a number, or `out` has another shape.

    Examples
    --------
    >>> import tensor
    >>> tensor.matmul(tensor.ones((2, 3)), tensor.ones((3,))).tolist()
    [3.0, 3.0]
    """
    return table.matmul(x1, x2) if out is None else run_into("matmul", np.matmul, (x1, x2), out)


def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the sum along `axis` of conj(x1) * x2; the shapes broadcast.

    Raises
    ------
    ValueError
        If the sizes along `axis` differ.

    Examples
    --------
    >>> import tensor
    >>> tensor.vecdot(tensor.ones((3,)), tensor.ones((3,))).item()
    3.0
    """
    first, second = as_tensor(x1), as_tensor(x2)
    size1 = first.shape[dim_of("vecdot", axis, first.ndim)]
    size2 = second.shape[dim_of("vecdot", axis, second.ndim)]
    if size1 != size2:
        raise InvalidArgumentError(
            f"vecdot: sizes along axis {axis} must be equal, not {size1} and {size2} of shapes {first.shape} "
            f"and {second.shape}"
        )
    if first.is_complex():
        first = conj(first)
    if axis not in (-1, first.ndim - 1) or first.ndim != second.ndim:
        products = multiply(first, second)
        return sum(products, axis=axis, dtype=products.dtype)
    return matmul(expand_dims(first, axis=-2), expand_dims(second, axis=-1)).squeeze((-2, -1))


def tensordot(x1: Operand, x2: Operand, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over pairs of dimensions: the last `axes` of `x1`, the first of `x2`.

    `axes` may also be two sequences of dimensions, for `x1` and `x2`; those at the same position are a pair.

    Raises
    ------
    ValueError
        If paired dimensions have different sizes, and neither size is 1.

    Examples
    --------
    >>> import tensor
    >>> tensor.tensordot(tensor.ones((2, 3)), tensor.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise InvalidArgumentError(
                f"tensordot: axes={axes} is out of range: shapes {a.shape} and {b.shape} have {a.ndim} and "
                f"{b.ndim} dimensions"
            )
        first, second = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        first = dims_of("tensordot", tuple(axes[0]), a.ndim)
        second = dims_of("tensordot", tuple(axes[1]), b.ndim)
    # As in PyTorch, a dimension of size 1 can be paired with one of any size.
    for i, j in zip(first, second, strict=len(first) == len(second)):
        if a.shape[i] == 1 != b.shape[j]:
            b = sum(b, axis=j, keepdims=True, dtype=b.dtype)
        elif b.shape[j] == 1 != a.shape[i]:
            a = sum(a, axis=i, keepdims=True, dtype=a.dtype)
    summed = tuple(a.shape[i] for i in first)
    if summed != tuple(b.shape[i] for i in second):
        raise InvalidArgumentError(
            f"tensordot: the summed sizes must be equal, not {summed} of shape {a.shape} and "
            f"{tuple(b.shape[i] for i in second)} of shape {b.shape}"
        )
    left = tuple(i for i in range(a.ndim) if i not in first)
    right = tuple(i for i in range(b.ndim) if i not in second)
    rows, columns = tuple(a.shape[i] for i in left), tuple(b.shape[i] for i in right)
    matrix1 = reshape(permute_dims(a, left + first), (prod(rows), prod(summed)))
    matrix2 = reshape(permute_dims(b, second + right), (prod(summed), prod(columns)))
    return reshape(matmul(matrix1, matrix2), rows + columns)


def outer(x1: Operand, x2: Operand, /) -> Tensor:
    """Return the outer product of two vectors: ``x1[i] * x2[j]`` at ``[i, j]``.

    Examples
    --------
    >>> import tensor
    >>> tensor.outer(tensor.tensor([1, 2]), tensor.tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = as_tensor(x1), as_tensor(x2)
    require_dims("outer", a, b, 1, 1)
    return multiply(expand_dims(a, axis=1), expand_dims(b, axis=0))


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """Return a view of the diagonals of the last two dimensions, `offset` above the main one.

    Examples
    --------
    >>> import tensor
    >>> tensor.linalg.diagonal(tensor.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return as_tensor(x).diagonal(offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: DtypeLike | None = None) -> Tensor:
    """Return the sum of the diagonal of the last two dimensions, `offset` above the main one, in `dtype`.

    Examples
    --------
    >>> import tensor
    >>> tensor.trace(tensor.tensor([[1, 2], [3, 4]])).item()
    5
    """
    return sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tensor:
    """Return the cross products of 3-element vectors along `axis`; the other dimensions broadcast.

    Examples
    --------
    >>> import tensor
    >>> tensor.cross(tensor.tensor([1, 0, 0]), tensor.tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = as_tensor(x1), as_tensor(x2)
    sizes = [x.shape[dim_of("cross", axis, x.ndim)] for x in (a, b)]
    if sizes != [3, 3]:
        raise InvalidArgumentError(
            f"cross takes vectors of size 3, not {sizes[0]} and {sizes[1]} along axis {axis} of shapes "
            f"{a.shape} and {b.shape}"
        )
    a, b = broadcast_tensors(a, b)
    place = dim_of("cross", axis, a.ndim)
    if a.shape[place] != 3:
        raise InvalidArgumentError(
            f"cross takes vectors of size 3, not {a.shape[place]} along axis {axis} of shape {a.shape}"
        )
    return a.roll(-1, place) * b.roll(-2, place) - a.roll(-2, place) * b.roll(-1, place)


_OPERANDS = {
    (1, 1): "two vectors",
    (2, 1): "a matrix and a vector",
    (2, 2): "two matrices",
    (3, 3): "two batches of matrices",
}


def require_dims(name: str, a: Tensor, b: Tensor, first: int, second: int) -> None:
    if (a.ndim, b.ndim) != (first, second):
        is_outer = name == "outer"
        advice = "write outer(x.ravel(), y.ravel())" if is_outer else "write matmul for other shapes"
        raise InvalidArgumentError(
            f"{name} takes {_OPERANDS[first, second]}, not shapes {a.shape} and {b.shape}: {advice}"
        )
