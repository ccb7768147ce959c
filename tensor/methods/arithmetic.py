"""Arithmetic and rounding as methods, and augmented assignment.

The functions are in ``tensor/ops/elementwise.py``, and the ops that they run in ``tensor/ops/table.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._dtypes import Array, Dtype, complex128, float64, is_floating, is_inexact, result_type
from tensor._errors import InvalidArgumentError, shown
from tensor.core.tensor import TensorCore, composite, last_use, wrap
from tensor.kernels import elementwise as kernels
from tensor.kernels.elementwise import power
from tensor.kernels.running import run_kernel
from tensor.kernels.ufuncs import compute_into
from tensor.ops import elementwise, table
from tensor.ops.data import as_data, as_tensor
from tensor.ops.in_place import augment, write_binary, write_unary
from tensor.ops.messages import Operand
from tensor.ops.scaling import cast, require_whole, rounded_to, rounding_number, scaled, wide_dtype
from tensor.ops.writing import become

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops import results
    from tensor.ops.results import Frexp
else:
    results = ModuleOnDemand("tensor.ops.results")


class Arithmetic(TensorCore):
    """Arithmetic and rounding as methods, and augmented assignment."""

    __slots__ = ()

    # --- The functions of `tensor` as methods ---------------------------------------------------------------

    positive: Final = elementwise.positive
    abs: Final = elementwise.abs
    absolute: Final = elementwise.abs
    negative: Final = elementwise.negative
    reciprocal: Final = elementwise.reciprocal
    square: Final = elementwise.square
    sign: Final = elementwise.sign
    ceil: Final = elementwise.ceil
    floor: Final = elementwise.floor
    trunc: Final = elementwise.trunc
    neg: Final = elementwise.negative
    sgn: Final = elementwise.sign
    fix: Final = elementwise.trunc

    # --- Methods with PyTorch's arguments -------------------------------------------------------------------

    def mul(self, other: Operand) -> Tensor:
        """Return the product of each pair of elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2, 3]).mul(other=2).tolist()
        [4, 6]
        """
        return table.multiply(self, other)

    multiply = mul

    def floor_divide(self, other: Operand) -> Tensor:
        """Return the quotient rounded down.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([5, -5]).floor_divide(2).tolist()
        [2, -3]
        """
        return table.floor_divide(self, other)

    def remainder(self, other: Operand) -> Tensor:
        """Return the remainder, with the sign of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([5, -5]).remainder(3).tolist()
        [2, 1]
        """
        return table.remainder(self, other)

    def pow(self, exponent: Operand) -> Tensor:
        """Return the tensor to the power `exponent`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2, 3]).pow(exponent=2).tolist()
        [4, 9]
        """
        return table.pow(self, exponent)

    def maximum(self, other: Operand) -> Tensor:
        """Return the larger element of each pair; nan if one is nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 4]).maximum(tensor.tensor([2, 3])).tolist()
        [2, 4]
        """
        return table.maximum(self, other)

    def minimum(self, other: Operand) -> Tensor:
        """Return the smaller element of each pair; nan if one is nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 4]).minimum(tensor.tensor([2, 3])).tolist()
        [1, 3]
        """
        return table.minimum(self, other)

    def nextafter(self, other: Operand) -> Tensor:
        """Return the next number of the dtype toward `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).nextafter(tensor.tensor([2.0])).item() - 1 == tensor.finfo("float32").eps
        True
        """
        return table.nextafter(self, other)

    def hypot(self, other: Operand) -> Tensor:
        """Return the square root of the sum of both squares.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0]).hypot(tensor.tensor([4.0])).tolist()
        [5.0]
        """
        return table.hypot(self, other)

    def copysign(self, other: Operand) -> Tensor:
        """Return the absolute value with the sign of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, -2.0]).copysign(-1.0).tolist()
        [-1.0, -2.0]
        """
        return table.copysign(self, other)

    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """Return the tensor moved toward `end` by the fraction `weight`.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1,)).lerp(end=tensor.ones((1,)), weight=0.25).tolist()
        [0.25]
        """
        return elementwise.lerp(self, end, weight)

    def add(self, other: Operand, *, alpha: complex = 1) -> Tensor:
        """Return the tensor plus `alpha` times `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).add(2.0, alpha=3).tolist()
        [7.0]
        """
        return elementwise.add(self, other) if alpha == 1 else _plus_scaled(*_rounded(self, other, alpha))

    def sub(self, other: Operand, *, alpha: complex = 1) -> Tensor:
        """Return the tensor less `alpha` times `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).sub(2.0, alpha=3).tolist()
        [-5.0]
        """
        if alpha == 1:
            return elementwise.subtract(self, other)
        return _less_scaled(*_rounded(self, other, alpha))

    subtract = sub

    @composite
    def addcmul(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Tensor:
        """Return the tensor plus `value` times `tensor1` times `tensor2`.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> one.addcmul(one, 3.0, value=2).tolist()
        [7.0]
        """
        dtype, product = _scaled_product(self, tensor1, tensor2, value)
        return cast(elementwise.add(last_use(self), product), dtype)

    @composite
    def addcdiv(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Tensor:
        """Return the tensor plus `value` times `tensor1` / `tensor2`.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> one.addcdiv(one, 4.0, value=2).tolist()
        [1.5]
        """
        dtype, quotient = _scaled_quotient(self, tensor1, tensor2, value)
        return cast(elementwise.add(last_use(self), quotient), dtype)

    @composite
    def div(self, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
        """Return the quotient. With `rounding_mode` ``"floor"`` or ``"trunc"``, integers stay integers.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([7.0]).div(2.0, rounding_mode="floor").tolist()
        [3.0]
        """
        if rounding_mode not in (None, "floor", "trunc"):
            raise InvalidArgumentError(
                f"div: rounding_mode must be None, 'floor' or 'trunc', not {shown(rounding_mode)}"
            )
        if rounding_mode == "floor":
            return elementwise.floor_divide(self, other)
        if rounding_mode is None:
            return elementwise.divide(self, other)
        quotient = elementwise.floor_divide(self, other)
        if quotient.dtype.kind in "iu":
            # Rounded down, a negative quotient is one too low, unless the division has no remainder.
            is_cut = elementwise.not_equal(elementwise.multiply(quotient, other), self)
            return elementwise.add(quotient, elementwise.logical_and(elementwise.less(quotient, 0), is_cut))
        if isinstance(other, (int, float)):
            # As in PyTorch, the quotient by a number is not rounded to 16 bits before it is truncated.
            dtype = quotient.dtype
            return cast(elementwise.trunc(elementwise.divide(cast(self, wide_dtype(dtype)), other)), dtype)
        return elementwise.trunc(elementwise.divide(self, other))

    divide = div
    true_divide = div

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Return the tensor with each element clamped to the range from `min` to `max`; one may be None.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp(max=3.0).tolist()
        [1.0, 3.0]
        """
        if min is None and max is None:
            self._raise_if_disposed()
            raise InvalidArgumentError("clamp takes min, max or both: write x.clamp(min=0.0)")
        return elementwise.clip(self, min, max)

    clip = clamp

    def clamp_min(self, min: Operand) -> Tensor:
        """Return the tensor with elements below `min` replaced by `min`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_min(3.0).tolist()
        [3.0, 5.0]
        """
        return elementwise.clip(self, min)

    def clamp_max(self, max: Operand) -> Tensor:
        """Return the tensor with elements above `max` replaced by `max`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_max(3.0).tolist()
        [1.0, 3.0]
        """
        return elementwise.clip(self, None, max)

    @rounding_number
    @composite
    def fmod(self, other: Operand) -> Tensor:
        """Return the remainder with the sign of the tensor. ``remainder`` has the sign of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([5.0, -5.0]).fmod(3).tolist()
        [2.0, -2.0]
        """
        x = as_tensor(self)
        dtype = result_type(x, other)
        if dtype.kind == "i":
            # The smallest integer has no absolute value.
            rest = elementwise.remainder(x, other)
            has_other_sign = elementwise.logical_and(
                elementwise.not_equal(rest, 0),
                elementwise.not_equal(elementwise.less(x, 0), elementwise.less(rest, 0)),
            )
            return elementwise.where(has_other_sign, elementwise.subtract(rest, other), rest)
        x = x if is_inexact(x.dtype) else x.to(dtype)
        # Compute the remainder of the absolute values, which is exact, and restore the sign.
        divisor: Any = elementwise.abs(other) if isinstance(other, TensorCore) else abs(other)  # type: ignore[arg-type]
        size = elementwise.remainder(elementwise.abs(x), divisor)
        return elementwise.where(elementwise.less(x, 0), elementwise.negative(size), size)

    def round(self, *, decimals: int = 0) -> Tensor:
        """Return the tensor rounded to `decimals` places, halves to even.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.25]).round(decimals=1).item() == tensor.tensor(1.2).item()
        True
        """
        if decimals == 0:
            return elementwise.round(self)
        return _round_decimals(self, decimals)

    @rounding_number
    @composite
    def rsub(self, other: Operand, *, alpha: complex = 1) -> Tensor:
        """Return `other` minus `alpha` times the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).rsub(5.0, alpha=2).tolist()
        [3.0]
        """
        if alpha == 1:
            return elementwise.subtract(other, self)
        require_whole("rsub", alpha, self, other)
        dtype = result_type(self, other)
        subtrahend = scaled(self, rounded_to(dtype, alpha), wide_dtype(dtype))
        return cast(elementwise.subtract(other, subtrahend), dtype)

    @composite
    def frac(self) -> Tensor:
        """Return the fractional part of each element, with its sign.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.5, -1.5]).frac().tolist()
        [0.5, -0.5]
        """
        return elementwise.subtract(self, elementwise.trunc(self))

    @composite
    def fmax(self, other: Operand) -> Tensor:
        """Return the larger element of each pair. If one of them is nan, return the other.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, tensor.nan]).fmax(tensor.tensor([0.0, 2.0])).tolist()
        [1.0, 2.0]
        """
        x, y = as_tensor(self), as_tensor(other)
        return elementwise.where(
            elementwise.logical_or(elementwise.greater_equal(x, y), elementwise.isnan(y)), x, y
        )

    @composite
    def fmin(self, other: Operand) -> Tensor:
        """Return the smaller element of each pair. If one of them is nan, return the other.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, tensor.nan]).fmin(tensor.tensor([0.0, 2.0])).tolist()
        [0.0, 2.0]
        """
        x, y = as_tensor(self), as_tensor(other)
        return elementwise.where(
            elementwise.logical_or(elementwise.less_equal(x, y), elementwise.isnan(y)), x, y
        )

    @composite
    def heaviside(self, values: object) -> Tensor:
        """Return 0 for negative elements, 1 for positive ones, and the element of `values` for 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([-1.0, 0.0, 2.0]).heaviside(tensor.tensor(0.5)).tolist()
        [0.0, 0.5, 1.0]
        """
        x = as_tensor(self)
        if not isinstance(values, TensorCore) or as_tensor(values).dtype != x.dtype:
            raise InvalidArgumentError(
                f"heaviside: values must have the tensor's dtype {x.dtype}: write values.to(x.dtype)"
            )
        step = elementwise.where(elementwise.isnan(x), x, elementwise.greater(x, 0).to(x.dtype))
        return elementwise.where(elementwise.equal(x, 0), as_tensor(values), step).detach()

    @composite
    def gcd(self, other: Tensor) -> Tensor:
        """Return the greatest common divisor of each pair of integers.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([12, 7]).gcd(tensor.tensor([18, 3])).tolist()
        [6, 1]
        """
        return _of_integers("gcd", np.gcd, self, other)

    @composite
    def lcm(self, other: Tensor) -> Tensor:
        """Return the least common multiple of each pair of integers.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([4, 3]).lcm(tensor.tensor([6, 5])).tolist()
        [12, 15]
        """
        return _of_integers("lcm", np.lcm, self, other)

    @composite
    def ldexp(self, other: Tensor) -> Tensor:
        """Return the tensor times 2 to the power `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).ldexp(tensor.tensor([1, 3])).tolist()
        [2.0, 8.0]
        """
        return elementwise.multiply(self, elementwise.pow(2.0, other))

    @composite
    def float_power(self, exponent: Operand) -> Tensor:
        """Return the tensor to the power `exponent`, computed in float64, or complex128 for complex numbers.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2, 3]).float_power(2).tolist()
        [4.0, 9.0]
        """
        return elementwise.pow(_in_double(self), _in_double(exponent))

    @composite
    def frexp(self) -> Frexp:
        """Return the fraction and the power of 2 of each element: ``mantissa * 2**exponent``.

        Examples
        --------
        >>> import tensor
        >>> [x.tolist() for x in tensor.tensor([6.0]).frexp()]
        [[0.75], [3]]
        """
        x = as_tensor(self)
        if not is_floating(x.dtype):
            raise TypeError(f"frexp takes floating tensors, not {x.dtype}: convert it with x.float()")
        _, exponent = run_kernel(np.frexp, x._live_array())
        powers = wrap(np.asarray(exponent, np.int32))
        return results.Frexp(elementwise.divide(x, elementwise.pow(2.0, powers.to(x.dtype))), powers)

    # --- In place -------------------------------------------------------------------------------------------

    def round_(self, *, decimals: int = 0) -> Self:
        """Round to `decimals` places in place, halves to even.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.5, 2.5]).round_().tolist()
        [2.0, 2.0]
        """
        if decimals == 0:
            return write_unary(table.round, self)
        x = as_tensor(self)
        become("round", x, x.round(decimals=decimals))
        return self

    def add_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Add `alpha` times `other` in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).add_(2.0, alpha=3).tolist()
        [7.0]
        """
        addend = other if alpha == 1 else _scaled_to_write("add_", self, other, alpha)
        return write_binary(table.add, self, addend)

    def sub_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Subtract `alpha` times `other` in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).sub_(2.0, alpha=3).tolist()
        [-5.0]
        """
        subtrahend = other if alpha == 1 else _scaled_to_write("sub_", self, other, alpha)
        return write_binary(table.subtract, self, subtrahend)

    subtract_ = sub_

    @composite
    def div_(self, other: Operand, *, rounding_mode: str | None = None) -> Self:
        """Divide by `other` in place; `rounding_mode` is None, ``"floor"`` or ``"trunc"``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([7, -7]).div_(2, rounding_mode="floor").tolist()
        [3, -4]
        """
        if rounding_mode is None:
            return write_binary(table.divide, self, other)
        x = as_tensor(self)
        become("div", x, x.div(other, rounding_mode=rounding_mode))
        return self

    divide_ = div_
    true_divide_ = div_

    @composite
    def addcmul_(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Add `value` times `tensor1` times `tensor2` in place.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> tensor.ones((1,)).addcmul_(one, one, value=2.0).tolist()
        [3.0]
        """
        return write_binary(table.add, self, _scaled_product(self, tensor1, tensor2, value)[1])

    @composite
    def addcdiv_(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Add `value` times `tensor1` / `tensor2` in place.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> tensor.ones((1,)).addcdiv_(one, one, value=2.0).tolist()
        [3.0]
        """
        return write_binary(table.add, self, _scaled_quotient(self, tensor1, tensor2, value)[1])

    @composite
    def lerp_(self, end: Operand, weight: Operand) -> Self:
        """Move toward `end` by the fraction `weight`, in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1,)).lerp_(tensor.ones((1,)), 0.25).tolist()
        [0.25]
        """
        x = as_tensor(self)
        become("lerp", x, elementwise.lerp(x, end, weight))
        return self

    def multiply_(self, other: Operand) -> Self:
        """Set each element `x1` to `x1` * `other`.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, 2]).multiply_(3).tolist()
        [3, 6]
        """
        return write_binary(table.multiply, self, other)

    mul_ = multiply_

    def remainder_(self, other: Operand) -> Self:
        """Set each element `x1` to the remainder, with the sign of `other`.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([5, -5]).remainder_(3).tolist()
        [2, 1]
        """
        return write_binary(table.remainder, self, other)

    def hypot_(self, other: Operand) -> Self:
        """Set each element `x1` to sqrt(x1**2 + other**2).

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0]).hypot_(4.0).tolist()
        [5.0]
        """
        return write_binary(table.hypot, self, other)

    def copysign_(self, other: Operand) -> Self:
        """Set each element `x1` to `x1` with the sign of `other`.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0]).copysign_(-2.0).tolist()
        [-1.0]
        """
        return write_binary(table.copysign, self, other)

    def negative_(self) -> Self:
        """Set each element `x` to -x.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, -2]).negative_().tolist()
        [-1, 2]
        """
        return write_unary(table.negative, self)

    neg_ = negative_

    def reciprocal_(self) -> Self:
        """Set each element `x` to 1 / x.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([4.0]).reciprocal_().tolist()
        [0.25]
        """
        return write_unary(table.reciprocal, self)

    def square_(self) -> Self:
        """Set each element `x` to x * x.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0]).square_().tolist()
        [9.0]
        """
        return write_unary(table.square, self)

    def sign_(self) -> Self:
        """Set each element `x` to -1, 0 or 1; x / abs(x) for complex `x`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2, -3, 0]).sign_().tolist()
        [1, -1, 0]
        """
        return write_unary(table.sign, self)

    sgn_ = sign_

    def ceil_(self) -> Self:
        """Set each element `x` to `x` rounded up.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.2, -1.2]).ceil_().tolist()
        [2.0, -1.0]
        """
        return write_unary(table.ceil, self)

    def floor_(self) -> Self:
        """Set each element `x` to `x` rounded down.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.2, -1.2]).floor_().tolist()
        [1.0, -2.0]
        """
        return write_unary(table.floor, self)

    def trunc_(self) -> Self:
        """Set each element `x` to `x` rounded toward zero.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.2, -1.2]).trunc_().tolist()
        [1.0, -1.0]
        """
        return write_unary(table.trunc, self)

    fix_ = trunc_

    def floor_divide_(self, other: Operand) -> Self:
        """Set each element `x1` to the quotient rounded down; its gradient is 0.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([5, -5]).floor_divide_(2).tolist()
        [2, -3]
        """
        return write_binary(table.floor_divide, self, other, _write_floor_divide)

    def pow_(self, exponent: Operand) -> Self:
        """Set each element `x1` to `x1` to the power `exponent`.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2.0, 3.0]).pow_(2).tolist()
        [4.0, 9.0]
        """
        return write_binary(table.pow, self, exponent, _write_power)

    def abs_(self) -> Self:
        """Set each element `x` to the absolute value, real for complex `x`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1, -2]).abs_().tolist()
        [1, 2]
        """
        return write_unary(table.abs, self, _write_abs)

    absolute_ = abs_

    @composite
    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Write the result of ``clamp`` to the tensor, which keeps its shape and dtype."""
        become("clamp", as_tensor(self), as_tensor(self).clamp(min, max))
        return self

    clip_ = clamp_

    @composite
    def clamp_min_(self, min: Operand) -> Self:
        """Write the result of ``clamp_min`` to the tensor, which keeps its shape and dtype."""
        become("clamp_min", as_tensor(self), as_tensor(self).clamp_min(min))
        return self

    @composite
    def clamp_max_(self, max: Operand) -> Self:
        """Write the result of ``clamp_max`` to the tensor, which keeps its shape and dtype."""
        become("clamp_max", as_tensor(self), as_tensor(self).clamp_max(max))
        return self

    def nextafter_(self, other: Operand) -> Self:
        """Write the result of ``nextafter`` to the tensor, which keeps its shape and dtype."""
        return write_binary(table.nextafter, self, other)

    @rounding_number
    @composite
    def fmod_(self, other: Operand) -> Self:
        """Write the result of ``fmod`` to the tensor, which keeps its shape and dtype."""
        become("fmod", as_tensor(self), as_tensor(self).fmod(other))
        return self

    @composite
    def frac_(self) -> Self:
        """Write the result of ``frac`` to the tensor, which keeps its shape and dtype."""
        become("frac", as_tensor(self), as_tensor(self).frac())
        return self

    @composite
    def heaviside_(self, values: object) -> Self:
        """Write the result of ``heaviside`` to the tensor, which keeps its shape and dtype."""
        become("heaviside", as_tensor(self), as_tensor(self).heaviside(values))
        return self

    @composite
    def gcd_(self, other: Tensor) -> Self:
        """Write the result of ``gcd`` to the tensor, which keeps its shape and dtype."""
        become("gcd", as_tensor(self), as_tensor(self).gcd(other))
        return self

    @composite
    def lcm_(self, other: Tensor) -> Self:
        """Write the result of ``lcm`` to the tensor, which keeps its shape and dtype."""
        become("lcm", as_tensor(self), as_tensor(self).lcm(other))
        return self

    @composite
    def ldexp_(self, other: Tensor) -> Self:
        """Write the result of ``ldexp`` to the tensor, which keeps its shape and dtype."""
        become("ldexp", as_tensor(self), as_tensor(self).ldexp(other))
        return self

    @composite
    def float_power_(self, exponent: Operand) -> Self:
        """Write the result of ``float_power`` to the tensor, which keeps its shape and dtype."""
        become("float_power", as_tensor(self), as_tensor(self).float_power(exponent))
        return self

    # --- Augmented assignment -------------------------------------------------------------------------------

    def __iadd__(self, other: Any, /) -> Self:
        return augment(table.add, self, other)

    def __isub__(self, other: Any, /) -> Self:
        return augment(table.subtract, self, other)

    def __imul__(self, other: Any, /) -> Self:
        return augment(table.multiply, self, other)

    def __itruediv__(self, other: Any, /) -> Self:
        return augment(table.divide, self, other)

    def __ifloordiv__(self, other: Any, /) -> Self:
        return augment(table.floor_divide, self, other, _write_floor_divide)

    def __imod__(self, other: Any, /) -> Self:
        return augment(table.remainder, self, other)

    def __ipow__(self, other: Any, /) -> Self:
        return augment(table.pow, self, other, _write_power)


@composite
def _round_decimals(x: TensorCore, decimals: int) -> Tensor:
    """Return `x` rounded to `decimals` places, which are not 0, in the dtype of `x`, rounded to it once."""
    dtype = result_type(x, 1.0)
    given = cast(last_use(x), wide_dtype(dtype))
    # A power of 10 is exact, but its reciprocal is not.
    scale = 10.0 ** abs(decimals)
    if decimals > 0:
        found = elementwise.divide(elementwise.round(elementwise.multiply(given, scale)), scale)
    else:
        found = elementwise.multiply(elementwise.round(elementwise.divide(given, scale)), scale)
    return cast(found, dtype)


def _write_power(x1: Array, x2: Any) -> None:
    if x1.dtype.kind in "iu" and np.asarray(x2).dtype.kind in "iu" and np.any(x2 < 0):
        # NumPy would raise after it has written some elements.
        raise InvalidArgumentError("Integers to negative integer powers are not allowed.")
    compute_into(power, (x1, x2), x1)


def _write_floor_divide(x1: Array, x2: Any) -> None:
    compute_into(kernels.floor_divide, (x1, x2), x1)


def _write_abs(x: Array) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(
            f"abs_: absolute values are real, but the tensor is {x.dtype}. Write x = x.abs() instead"
        )
    return np.abs(x)


def _scaled_to_write(name: str, x: TensorCore, other: Operand, alpha: complex) -> Operand:
    """Return ``other * alpha`` for an op that adds it to `x` in place."""
    require_whole(name, alpha, x, other)
    _, other, alpha = _rounded(x, other, alpha)
    return scaled(other, alpha, wide_dtype(result_type(x, other)))


def _rounded(x: TensorCore, other: Operand, alpha: complex) -> tuple[TensorCore, Operand, complex]:
    """Return the operands of ``x.add(other, alpha=alpha)``, with numbers in the precision of the result."""
    dtype = result_type(x, other)
    return x, rounded_to(dtype, other), rounded_to(dtype, alpha)


@composite
def _plus_scaled(x: TensorCore, other: Operand, alpha: complex) -> Tensor:
    require_whole("add", alpha, x, other)
    dtype = result_type(x, other)
    addend = scaled(other, alpha, wide_dtype(dtype))
    return cast(elementwise.add(last_use(x), addend), dtype)


@composite
def _less_scaled(x: TensorCore, other: Operand, alpha: complex) -> Tensor:
    require_whole("sub", alpha, x, other)
    dtype = result_type(x, other)
    subtrahend = scaled(other, alpha, wide_dtype(dtype))
    return cast(elementwise.subtract(last_use(x), subtrahend), dtype)


def _scaled_product(x: TensorCore, a: Operand, b: Operand, value: complex) -> tuple[Dtype, Tensor]:
    """Return the dtype of ``x + value * a * b``, and ``value * a * b`` in the dtype to add it in."""
    dtype = result_type(x, a, b)
    wide = wide_dtype(dtype)
    return dtype, elementwise.multiply(scaled(a, value, wide), cast(b, wide))


def _scaled_quotient(x: TensorCore, a: Operand, b: Operand, value: complex) -> tuple[Dtype, Tensor]:
    """Return the dtype of ``x + value * a / b``, and ``value * a / b`` in the dtype to add it in."""
    dtype = result_type(x, a, b, 1.0)  # a quotient of integers is floating
    wide = wide_dtype(dtype)
    return dtype, elementwise.divide(scaled(a, value, wide), cast(b, wide))


def _in_double(x: Operand) -> Any:
    """Return a tensor in float64 or complex128, and anything else as it is."""
    if not isinstance(x, TensorCore):
        return x
    given = as_tensor(x)
    return given.to(complex128 if given.is_complex() else float64)


def _of_integers(name: str, kernel: np.ufunc, x: TensorCore, other: object) -> Tensor:
    first, second = x._live_array(), as_data(other, None)
    for array in (first, second):
        if array.dtype.kind not in "iu":
            raise TypeError(f"{name} takes integers, not {array.dtype}: convert them with x.long()")
    try:
        out: Array = np.asarray(run_kernel(kernel, first, second))
    except ValueError:
        raise InvalidArgumentError(
            f"{name}: shapes {first.shape} and {second.shape} don't broadcast together"
        ) from None
    return wrap(out)
