"""Products of matrices and vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensor._core import TensorCore
from tensor._derivatives import RULES
from tensor._dispatch import apply, foreign, operand

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """Return the product of matrices, `x1` of shape (..., n, k) and `x2` of shape (..., k, m).

    The leading dimensions broadcast. A vector of shape (k,) counts as a row on the left, as a column on the
    right, and its dimension is gone in the result.

    Raises
    ------
    ValueError
        If the sizes k differ, or an operand is a number.

    Examples
    --------
    >>> import tensor
    >>> tensor.matmul(tensor.ones((2, 3)), tensor.ones((3,))).tolist()
    [3.0, 3.0]
    """
    a, b = operand(x1), operand(x2)
    for x, array in ((x1, a), (x2, b)):
        if array is NotImplemented:
            raise foreign("matmul", x)
        if np.ndim(array) == 0:
            raise ValueError("matmul takes vectors and matrices, not a number or a 0-d tensor: write x * y")
    return apply(RULES["matmul"], np.matmul, (x1, x2), a_shape=a.shape, b_shape=b.shape)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Return the sum along `axis` of conj(x1) * x2.

    Examples
    --------
    >>> import tensor
    >>> tensor.vecdot(tensor.ones((3,)), tensor.ones((3,))).item()
    3.0
    """
    first = x1.conj() if x1.dtype.kind == "c" else x1
    return cast("Tensor", (first * x2).sum(dim=axis))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Any, Any] = 2) -> Tensor:
    """Return the sum of products over pairs of dimensions: the last `axes` of `x1`, the first of `x2`.

    `axes` may also be two sequences of dimensions, the i-th of the first summed with the i-th of the second.

    Examples
    --------
    >>> import tensor
    >>> tensor.tensordot(tensor.ones((2, 3)), tensor.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    if isinstance(axes, int):
        first: tuple[int, ...] = tuple(range(x1.ndim - axes, x1.ndim))
        second: tuple[int, ...] = tuple(range(axes))
    else:
        first = tuple(a % x1.ndim for a in axes[0])
        second = tuple(a % x2.ndim for a in axes[1])
    summed = [x1.shape[a] for a in first]
    if summed != [x2.shape[a] for a in second]:
        raise ValueError(
            f"tensordot: the summed sizes differ: {summed} of {x1.shape} and "
            f"{[x2.shape[a] for a in second]} of "
            f"{x2.shape}"
        )
    left = [a for a in range(x1.ndim) if a not in first]
    right = [a for a in range(x2.ndim) if a not in second]
    size = int(np.prod(summed, dtype=np.int64))
    a = (
        x1.permute(*left, *first).reshape(-1, size)
        if size
        else x1.permute(*left, *first).reshape(int(np.prod([x1.shape[i] for i in left], dtype=np.int64)), 0)
    )
    b = x2.permute(*second, *right).reshape(size, int(np.prod([x2.shape[i] for i in right], dtype=np.int64)))
    return matmul(a, b).reshape(*[x1.shape[i] for i in left], *[x2.shape[i] for i in right])


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Return the products of each element of the vector `x1` with each of the vector `x2`.

    Examples
    --------
    >>> import tensor
    >>> tensor.outer(tensor.tensor([1, 2]), tensor.tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    for x in (x1, x2):
        if x.ndim != 1:
            raise ValueError(f"outer takes two vectors, not shape {x.shape}: flatten it first (x.flatten())")
    return cast("Tensor", x1.unsqueeze(1) * x2.unsqueeze(0))


class LinearAlgebra(TensorCore):
    """Products of matrices and vectors, with PyTorch's names."""

    __slots__ = ()

    matmul = matmul
    outer = outer

    def __matmul__(self, other: Any) -> Tensor:
        return NotImplemented if operand(other) is NotImplemented else matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return NotImplemented if operand(other) is NotImplemented else matmul(other, self)

    def mm(self, other: Tensor) -> Tensor:
        """Return the product of two matrices.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 2)).mm(tensor.ones((2, 1))).tolist()
        [[2.0]]
        """
        return _of_dims("mm", self, other, 2, 2)

    def bmm(self, other: Tensor) -> Tensor:
        """Return the products of two batches of matrices, (b, n, k) and (b, k, m).

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((5, 1, 2)).bmm(tensor.ones((5, 2, 3))).shape
        (5, 1, 3)
        """
        return _of_dims("bmm", self, other, 3, 3)

    def mv(self, other: Tensor) -> Tensor:
        """Return the product of a matrix and a vector.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 2)).mv(tensor.ones((2,))).tolist()
        [2.0]
        """
        return _of_dims("mv", self, other, 2, 1)

    def dot(self, other: Tensor) -> Tensor:
        """Return the sum of products of two vectors.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3,)).dot(tensor.ones((3,))).item()
        3.0
        """
        return _of_dims("dot", self, other, 1, 1)


def _of_dims(name: str, x1: Any, x2: Any, first: int, second: int) -> Tensor:
    for x, ndim in ((x1, first), (x2, second)):
        if x.ndim != ndim:
            raise ValueError(
                f"{name} takes tensors of {first} and {second} dimensions, not {x1.shape} and {x2.shape}: "
                "matmul broadcasts"
            )
    return matmul(x1, x2)
