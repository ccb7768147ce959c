"""Methods of matrices: sums with products, diagonals, flips, and conjugate transposes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tensor._dtypes import result_type
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dims_of
from tensor.core.donation import composite, last_use
from tensor.core.tensor import TensorCore
from tensor.ops import elementwise as f
from tensor.ops.data import as_tensor
from tensor.ops.in_place import with_in_place
from tensor.ops.linalg import outer, tensordot
from tensor.ops.moving import flip
from tensor.ops.scaling import cast, require_whole, scaled, wide_dtype
from tensor.ops.shapes import matrix_transpose

if TYPE_CHECKING:
    from tensor._tensor import Tensor


@with_in_place("addmm addmv addr baddbmm")
class Matrices(TensorCore):
    """Methods of matrices, with PyTorch's names."""

    __slots__ = ()

    @composite
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * (mat1 @ mat2)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).addmm(tensor.ones((2, 3)), tensor.ones((3, 1))).tolist()
        [[4.0], [4.0]]
        """
        return plus_product(self, as_tensor(mat1).mm(mat2), beta, alpha)

    @composite
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * (mat @ vec)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).addmv(tensor.ones((2, 3)), tensor.ones((3,))).tolist()
        [4.0, 4.0]
        """
        return plus_product(self, as_tensor(mat).mv(vec), beta, alpha)

    @composite
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * outer(vec1, vec2)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1, 2)).addr(tensor.ones((1,)), tensor.ones((2,))).tolist()
        [[2.0, 2.0]]
        """
        require_whole("addr", beta, self, vec1, vec2, factor="beta")
        require_whole("addr", alpha, self, vec1, vec2)
        dtype = result_type(self, vec1, vec2)
        return plus_product(self, outer(cast(vec1, dtype), cast(vec2, dtype)), beta, alpha)

    @composite
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        """Return ``beta * x + alpha * (batch1 @ batch2)``.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).baddbmm(tensor.ones((2, 1, 3)), tensor.ones((2, 3, 1))).tolist()
        [[[4.0]], [[4.0]]]
        """
        return plus_product(self, as_tensor(batch1).bmm(batch2), beta, alpha)

    def ger(self, vec2: Tensor) -> Tensor:
        """Return the outer product of two vectors: PyTorch's older name for ``outer``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).ger(tensor.tensor([3, 4])).tolist()
        [[3, 4], [6, 8]]
        """
        return outer(self, vec2)

    def inner(self, other: Tensor) -> Tensor:
        """Return the sums of products over the last dimension of both tensors.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2, 3)).inner(tensor.ones((4, 3))).shape
        (2, 4)
        """
        a, b = as_tensor(self), as_tensor(other)
        if a.ndim == 0 or b.ndim == 0:
            return f.multiply(a, b)
        return tensordot(a, b, axes=((-1,), (-1,)))

    def vdot(self, other: Tensor) -> Tensor:
        """Return the sum of the products of two vectors, the first one conjugated.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1j]).vdot(tensor.tensor([1j])).item()
        (1+0j)
        """
        x = as_tensor(self)
        return (f.conj(x) if x.is_complex() else x).dot(other)

    def dist(self, other: Tensor, p: float = 2) -> Tensor:
        """Return the `p`-norm of the difference.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0, 4.0]).dist(tensor.zeros((2,))).item()
        5.0
        """
        return f.subtract(self, other).norm(p)

    def diag(self, diagonal: int = 0) -> Tensor:
        """Return a matrix with this vector on a diagonal, or a copy of a diagonal of this matrix.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).diag().tolist(), tensor.tensor([[1, 2], [3, 4]]).diag(1).tolist()
        ([[1, 0], [0, 2]], [2])
        """
        x = as_tensor(self)
        if x.ndim == 1:
            return x.diag_embed(diagonal)
        if x.ndim != 2:
            raise InvalidArgumentError(f"diag takes a vector or a matrix, not shape {x.shape}")
        return x.diagonal(diagonal).clone()

    def diag_embed(self, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
        """Return matrices, in the dimensions `dim1` and `dim2`, with the last dimension on a diagonal.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((3, 2)).diag_embed().shape
        (3, 2, 2)
        """
        x = as_tensor(self)
        first, second = dims_of("diag_embed", (dim1, dim2), x.ndim + 1)
        size = x.shape[-1] + abs(offset)
        rest = iter(x.shape[:-1])
        shape = [size if i in (first, second) else next(rest) for i in range(x.ndim + 1)]
        out = x.new_zeros(shape)
        out.diagonal(offset, first, second).copy_(x)
        return out

    def fill_diagonal_(self, fill_value: complex) -> Self:
        """Write `fill_value` on the main diagonal.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2, 2)).fill_diagonal_(1).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        x = as_tensor(self)
        if x.ndim != 2:
            raise InvalidArgumentError(f"fill_diagonal_ takes a matrix, not shape {x.shape}")
        x.diagonal().fill_(fill_value)
        return self

    def fliplr(self) -> Tensor:
        """Return a copy with the columns in reverse order.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([[1, 2]]).fliplr().tolist()
        [[2, 1]]
        """
        if as_tensor(self).ndim < 2:
            raise InvalidArgumentError(
                f"fliplr takes at least two dimensions, not shape {as_tensor(self).shape}"
            )
        return flip(as_tensor(self), axis=1)

    def flipud(self) -> Tensor:
        """Return a copy with the rows in reverse order.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).flipud().tolist()
        [2, 1]
        """
        if as_tensor(self).ndim < 1:
            raise InvalidArgumentError(
                "flipud takes at least one dimension: reshape the tensor to (1,) first"
            )
        return flip(as_tensor(self), axis=0)

    @property
    def H(self) -> Tensor:  # noqa: N802 - the name that users know
        """The conjugate transpose of a matrix. It is a view for a real dtype."""
        x = as_tensor(self)
        if x.ndim != 2:
            advice = ": write x.mH for a batch of matrices" if x.ndim > 2 else ""
            raise InvalidArgumentError(f"H takes a matrix, not shape {x.shape}{advice}")
        return x.mH

    @property
    def mH(self) -> Tensor:  # noqa: N802 - the name that users know
        """The conjugate transpose of the last two dimensions. It is a view for a real dtype."""
        x = as_tensor(self)
        return matrix_transpose(f.conj(x) if x.is_complex() else x)


def plus_product(x: TensorCore, product: Tensor, beta: float, alpha: float) -> Tensor:
    """Return ``beta * x + alpha * product``. For integers the factors are truncated."""
    dtype = result_type(x, product)
    wide = wide_dtype(dtype)
    addend = as_tensor(scaled(product, alpha, wide))
    if beta == 0:  # ignore the values of the tensor, even nan
        return cast(addend, product.dtype)
    return cast(f.add(last_use(x) if beta == 1 else scaled(last_use(x), beta, wide), addend), dtype)
