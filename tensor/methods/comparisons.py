"""Comparisons, logic and bits as methods.

The functions are in ``tensor/ops/elementwise.py``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tensor.core.tensor import TensorCore, composite
from tensor.ops import elementwise, table
from tensor.ops.data import as_tensor
from tensor.ops.in_place import augment, write_binary
from tensor.ops.messages import Operand
from tensor.ops.scaling import rounding_number
from tensor.ops.writing import become

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class Comparisons(TensorCore):
    """Comparisons, logic and bits as methods."""

    __slots__ = ()

    # --- The functions of `tensor` as methods ---------------------------------------------------------------

    logical_not: Final = elementwise.logical_not
    isfinite: Final = elementwise.isfinite
    isinf: Final = elementwise.isinf
    isnan: Final = elementwise.isnan
    signbit: Final = elementwise.signbit
    bitwise_not: Final = elementwise.bitwise_invert

    # --- Methods with PyTorch's arguments -------------------------------------------------------------------

    def eq(self, other: Operand) -> Tensor:
        """Return where the elements equal those of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).eq(other=2).tolist()
        [False, True]
        """
        return table.equal(self, other)

    def ne(self, other: Operand) -> Tensor:
        """Return where the elements differ from those of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).ne(2).tolist()
        [True, False]
        """
        return table.not_equal(self, other)

    not_equal = ne

    def lt(self, other: Operand) -> Tensor:
        """Return where the elements are less than those of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).lt(2).tolist()
        [True, False]
        """
        return table.less(self, other)

    less = lt

    def le(self, other: Operand) -> Tensor:
        """Return where the elements are at most those of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).le(1).tolist()
        [True, False]
        """
        return table.less_equal(self, other)

    less_equal = le

    def gt(self, other: Operand) -> Tensor:
        """Return where the elements are greater than those of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).gt(1).tolist()
        [False, True]
        """
        return table.greater(self, other)

    greater = gt

    def ge(self, other: Operand) -> Tensor:
        """Return where the elements are at least those of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).ge(2).tolist()
        [False, True]
        """
        return table.greater_equal(self, other)

    greater_equal = ge

    def logical_and(self, other: Operand) -> Tensor:
        """Return where both elements are true.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([True, False]).logical_and(tensor.tensor([True, True])).tolist()
        [True, False]
        """
        return table.logical_and(self, other)

    def logical_or(self, other: Operand) -> Tensor:
        """Return where one or both elements are true.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([True, False]).logical_or(tensor.tensor([False, False])).tolist()
        [True, False]
        """
        return table.logical_or(self, other)

    def logical_xor(self, other: Operand) -> Tensor:
        """Return where exactly one of both elements is true.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([True, False]).logical_xor(tensor.tensor([True, True])).tolist()
        [False, True]
        """
        return table.logical_xor(self, other)

    def bitwise_and(self, other: Operand) -> Tensor:
        """Return the bits that both have.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([6]).bitwise_and(3).tolist()
        [2]
        """
        return table.bitwise_and(self, other)

    def bitwise_or(self, other: Operand) -> Tensor:
        """Return the bits that one or both have.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([6]).bitwise_or(3).tolist()
        [7]
        """
        return table.bitwise_or(self, other)

    def bitwise_xor(self, other: Operand) -> Tensor:
        """Return the bits that exactly one of both has.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([6]).bitwise_xor(3).tolist()
        [5]
        """
        return table.bitwise_xor(self, other)

    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """Return the bits shifted left by `other` places.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3]).bitwise_left_shift(2).tolist()
        [12]
        """
        return table.bitwise_left_shift(self, other)

    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """Return the bits shifted right by `other` places.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([12]).bitwise_right_shift(2).tolist()
        [3]
        """
        return table.bitwise_right_shift(self, other)

    def isclose(
        self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> Tensor:
        """Return where the tensor is within `atol` + `rtol` * abs(other) of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 1.1]).isclose(1.000001).tolist()
        [True, False]
        """
        return elementwise.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    def allclose(
        self, other: Operand, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
    ) -> bool:
        """Return whether ``isclose`` holds for all elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 1.1]).allclose(tensor.tensor([1.0, 1.1]))
        True
        """
        return elementwise.allclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

    @composite
    def equal(self, other: Tensor) -> bool:
        """Return whether `other` has the same shape and values. ``eq`` compares elementwise.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).equal(tensor.ones((2,))), tensor.ones((2,)).equal(tensor.ones((3,)))
        (True, False)
        """
        same = as_tensor(self).shape == other.shape
        return same and bool(np.all(elementwise.equal(self, other)._array))

    def where(self, condition: Operand, other: Operand) -> Tensor:
        """Return the tensor where `condition` is true and `other` elsewhere.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, -2.0])
        >>> x.where(x > 0, 0.0).tolist()
        [1.0, 0.0]
        """
        return elementwise.where(condition, self, other)

    @composite
    def isposinf(self) -> Tensor:
        """Return where the tensor is positive infinity.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([tensor.inf, -tensor.inf]).isposinf().tolist()
        [True, False]
        """
        return elementwise.equal(self, math.inf)

    @composite
    def isneginf(self) -> Tensor:
        """Return where the tensor is negative infinity.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([tensor.inf, -tensor.inf]).isneginf().tolist()
        [False, True]
        """
        return elementwise.equal(self, -math.inf)

    @composite
    def isreal(self) -> Tensor:
        """Return where the tensor has no imaginary part.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 1j]).isreal().tolist()
        [True, False]
        """
        x = as_tensor(self)
        return elementwise.equal(x.imag, 0) if x.is_complex() else x.new_ones(x.shape, dtype="bool")

    # --- In place -------------------------------------------------------------------------------------------

    def bitwise_and_(self, other: Operand) -> Self:
        """Set each element `x1` to the bits set in both.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([6]).bitwise_and_(3).tolist()
        [2]
        """
        return write_binary(table.bitwise_and, self, other)

    def bitwise_or_(self, other: Operand) -> Self:
        """Set each element `x1` to the bits set in one or both.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([6]).bitwise_or_(3).tolist()
        [7]
        """
        return write_binary(table.bitwise_or, self, other)

    def bitwise_xor_(self, other: Operand) -> Self:
        """Set each element `x1` to the bits set in exactly one.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([6]).bitwise_xor_(3).tolist()
        [5]
        """
        return write_binary(table.bitwise_xor, self, other)

    def bitwise_left_shift_(self, other: Operand) -> Self:
        """Set each element `x1` to the bits of `x1` shifted left by `other` places.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3]).bitwise_left_shift_(2).tolist()
        [12]
        """
        return write_binary(table.bitwise_left_shift, self, other)

    def bitwise_right_shift_(self, other: Operand) -> Self:
        """Set each element `x1` to the bits of `x1` shifted right by `other` places.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([12]).bitwise_right_shift_(2).tolist()
        [3]
        """
        return write_binary(table.bitwise_right_shift, self, other)

    @rounding_number
    @composite
    def eq_(self, other: Operand) -> Self:
        """Write the result of ``eq`` to the tensor, which keeps its shape and dtype."""
        become("eq", as_tensor(self), as_tensor(self).eq(other))
        return self

    @rounding_number
    @composite
    def ne_(self, other: Operand) -> Self:
        """Write the result of ``ne`` to the tensor, which keeps its shape and dtype."""
        become("ne", as_tensor(self), as_tensor(self).ne(other))
        return self

    not_equal_ = ne_

    @rounding_number
    @composite
    def lt_(self, other: Operand) -> Self:
        """Write the result of ``lt`` to the tensor, which keeps its shape and dtype."""
        become("lt", as_tensor(self), as_tensor(self).lt(other))
        return self

    less_ = lt_

    @rounding_number
    @composite
    def le_(self, other: Operand) -> Self:
        """Write the result of ``le`` to the tensor, which keeps its shape and dtype."""
        become("le", as_tensor(self), as_tensor(self).le(other))
        return self

    less_equal_ = le_

    @rounding_number
    @composite
    def gt_(self, other: Operand) -> Self:
        """Write the result of ``gt`` to the tensor, which keeps its shape and dtype."""
        become("gt", as_tensor(self), as_tensor(self).gt(other))
        return self

    greater_ = gt_

    @rounding_number
    @composite
    def ge_(self, other: Operand) -> Self:
        """Write the result of ``ge`` to the tensor, which keeps its shape and dtype."""
        become("ge", as_tensor(self), as_tensor(self).ge(other))
        return self

    greater_equal_ = ge_

    @composite
    def logical_and_(self, other: Operand) -> Self:
        """Write the result of ``logical_and`` to the tensor, which keeps its shape and dtype."""
        become("logical_and", as_tensor(self), as_tensor(self).logical_and(other))
        return self

    @composite
    def logical_or_(self, other: Operand) -> Self:
        """Write the result of ``logical_or`` to the tensor, which keeps its shape and dtype."""
        become("logical_or", as_tensor(self), as_tensor(self).logical_or(other))
        return self

    @composite
    def logical_xor_(self, other: Operand) -> Self:
        """Write the result of ``logical_xor`` to the tensor, which keeps its shape and dtype."""
        become("logical_xor", as_tensor(self), as_tensor(self).logical_xor(other))
        return self

    @composite
    def logical_not_(self) -> Self:
        """Write the result of ``logical_not`` to the tensor, which keeps its shape and dtype."""
        become("logical_not", as_tensor(self), as_tensor(self).logical_not())
        return self

    @composite
    def bitwise_not_(self) -> Self:
        """Write the result of ``bitwise_not`` to the tensor, which keeps its shape and dtype."""
        become("bitwise_not", as_tensor(self), as_tensor(self).bitwise_not())
        return self

    # --- Augmented assignment -------------------------------------------------------------------------------

    def __iand__(self, other: Any, /) -> Self:
        return augment(table.bitwise_and, self, other)

    def __ior__(self, other: Any, /) -> Self:
        return augment(table.bitwise_or, self, other)

    def __ixor__(self, other: Any, /) -> Self:
        return augment(table.bitwise_xor, self, other)

    def __ilshift__(self, other: Any, /) -> Self:
        return augment(table.bitwise_left_shift, self, other)

    def __irshift__(self, other: Any, /) -> Self:
        return augment(table.bitwise_right_shift, self, other)
