"""Elementwise methods with PyTorch's arguments, where those differ from `tensor.ops.elementwise`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import numpy as np

from scopes.lowlevel import ModuleOnDemand
from tensor._dtypes import Dtype, is_floating, result_type
from tensor._errors import InvalidArgumentError, shown
from tensor.core.donation import composite, last_use
from tensor.core.tensor import TensorCore
from tensor.ops import elementwise as f
from tensor.ops.data import as_tensor
from tensor.ops.elementwise import Elementwise
from tensor.ops.in_place import with_in_place
from tensor.ops.messages import Operand
from tensor.ops.scaling import cast, require_whole, scaled, wide_dtype
from tensor.ops.writing import become

if TYPE_CHECKING:
    from tensor import _limits
    from tensor._tensor import Tensor
else:
    _limits = ModuleOnDemand("tensor._limits")


@with_in_place(
    """
    eq ne not_equal lt less le less_equal gt greater ge greater_equal logical_and logical_or logical_xor
    logical_not bitwise_not clamp clip clamp_min clamp_max nextafter fmod nan_to_num xlogy logit
    """
)
class ElementwiseMethods(Elementwise):
    """All elementwise methods: those of `Elementwise`, and those with PyTorch's arguments."""

    __slots__ = ()

    lerp: Final = f.lerp

    def add(self, other: Operand, *, alpha: complex = 1) -> Tensor:
        """Return the tensor plus `alpha` times `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).add(2.0, alpha=3).tolist()
        [7.0]
        """
        return f.add(self, other) if alpha == 1 else _plus_scaled(self, other, alpha)

    def sub(self, other: Operand, *, alpha: complex = 1) -> Tensor:
        """Return the tensor less `alpha` times `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).sub(2.0, alpha=3).tolist()
        [-5.0]
        """
        return f.subtract(self, other) if alpha == 1 else _less_scaled(self, other, alpha)

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
        return cast(f.add(last_use(self), product), dtype)

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
        return cast(f.add(last_use(self), quotient), dtype)

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
            return f.floor_divide(self, other)
        if rounding_mode is None:
            return f.divide(self, other)
        quotient = f.floor_divide(self, other)
        if quotient.dtype.kind in "iu":
            # Rounded down, a negative quotient is one too low, unless the division has no remainder.
            is_cut = f.not_equal(f.multiply(quotient, other), self)
            return f.add(quotient, f.logical_and(f.less(quotient, 0), is_cut))
        return f.trunc(f.divide(self, other))

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
        return f.clip(self, min, max)

    clip = clamp

    def clamp_min(self, min: Operand) -> Tensor:
        """Return the tensor with elements below `min` replaced by `min`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_min(3.0).tolist()
        [3.0, 5.0]
        """
        return f.clip(self, min)

    def clamp_max(self, max: Operand) -> Tensor:
        """Return the tensor with elements above `max` replaced by `max`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_max(3.0).tolist()
        [1.0, 3.0]
        """
        return f.clip(self, None, max)

    def nan_to_num(
        self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
    ) -> Tensor:
        """Return the tensor with nan and infinities replaced, by default by 0 and by the dtype's limits.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([tensor.nan, 1.0, tensor.inf]).nan_to_num(posinf=9.0).tolist()
        [0.0, 1.0, 9.0]
        """
        x = as_tensor(self)
        if not is_floating(x.dtype):
            return _cloned(x)
        limits = _limits.finfo(x.dtype)
        high = limits.max if posinf is None else posinf
        low = limits.min if neginf is None else neginf
        return _replace_nonfinite(x, nan, high, low)

    @composite
    def fmod(self, other: Operand) -> Tensor:
        """Return the remainder with the sign of the tensor. ``remainder`` has the sign of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([5.0, -5.0]).fmod(3).tolist()
        [2.0, -2.0]
        """
        # Compute the remainder of the absolute values, which is exact, and restore the sign.
        x = as_tensor(self)
        size = f.remainder(f.abs(x), f.abs(other) if isinstance(other, TensorCore) else abs(other))  # type: ignore[arg-type]
        return f.where(f.less(x, 0), f.negative(size), size)

    @composite
    def logit(self, eps: float | None = None) -> Tensor:
        """Return log(x / (1 - x)). With `eps`, first clamp the tensor to `[eps, 1 - eps]`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.5]).logit().tolist()
        [0.0]
        """
        x = as_tensor(self) if eps is None else self.clamp(eps, 1 - eps)
        # Use 1.0 instead of 1, because integers of a small dtype would wrap around.
        rest = f.subtract(1.0, x)
        return f.log(f.divide(last_use(x), rest))

    @composite
    def xlogy(self, other: Operand) -> Tensor:
        """Return the tensor times log(other), and 0 where the tensor is 0 and `other` is not nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0, 2.0]).xlogy(tensor.tensor([0.0, 1.0])).tolist()
        [0.0, 0.0]
        """
        is_zero = f.logical_and(f.equal(self, 0), f.logical_not(f.isnan(other)))
        safe = f.where(is_zero, 1.0, other)
        return f.multiply(last_use(self), f.log(safe))

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
        return f.isclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

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
        return f.allclose(self, other, rtol=rtol, atol=atol, equal_nan=equal_nan)

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
        return same and bool(np.all(f.equal(self, other)._array))

    def round(self, *, decimals: int = 0) -> Tensor:
        """Return the tensor rounded to `decimals` places, halves to even.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.25]).round(decimals=1).item() == tensor.tensor(1.2).item()
        True
        """
        if decimals == 0:
            return f.round(self)
        scale = 10.0**decimals
        return f.divide(f.round(f.multiply(self, scale)), scale)

    def round_(self, *, decimals: int = 0) -> Self:
        """Round to `decimals` places in place, halves to even.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.5, 2.5]).round_().tolist()
        [2.0, 2.0]
        """
        if decimals == 0:
            return self._round_()
        x = as_tensor(self)
        become("round", x, x.round(decimals=decimals))
        return self

    def where(self, condition: Operand, other: Operand) -> Tensor:
        """Return the tensor where `condition` is true and `other` elsewhere.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, -2.0])
        >>> x.where(x > 0, 0.0).tolist()
        [1.0, 0.0]
        """
        return f.where(condition, self, other)

    # In place

    def add_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Add `alpha` times `other` in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).add_(2.0, alpha=3).tolist()
        [7.0]
        """
        self._add_(other if alpha == 1 else _scaled_to_write("add_", self, other, alpha))
        return self

    def sub_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Subtract `alpha` times `other` in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).sub_(2.0, alpha=3).tolist()
        [-5.0]
        """
        self._subtract_(other if alpha == 1 else _scaled_to_write("sub_", self, other, alpha))
        return self

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
            self._divide_(other)
        else:
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
        self._add_(_scaled_product(self, tensor1, tensor2, value)[1])
        return self

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
        self._add_(_scaled_quotient(self, tensor1, tensor2, value)[1])
        return self

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
        become("lerp", x, f.lerp(x, end, weight))
        return self


@composite
def _cloned(x: Tensor) -> Tensor:
    return x.clone()


def _scaled_to_write(name: str, x: TensorCore, other: Operand, alpha: complex) -> Operand:
    """Return ``other * alpha`` for an op that adds it to `x` in place."""
    require_whole(name, alpha, x, other)
    return scaled(other, alpha, wide_dtype(result_type(x, other)))


@composite
def _plus_scaled(x: TensorCore, other: Operand, alpha: complex) -> Tensor:
    require_whole("add", alpha, x, other)
    dtype = result_type(x, other)
    addend = scaled(other, alpha, wide_dtype(dtype))
    return cast(f.add(last_use(x), addend), dtype)


@composite
def _less_scaled(x: TensorCore, other: Operand, alpha: complex) -> Tensor:
    require_whole("sub", alpha, x, other)
    dtype = result_type(x, other)
    subtrahend = scaled(other, alpha, wide_dtype(dtype))
    return cast(f.subtract(last_use(x), subtrahend), dtype)


def _scaled_product(x: TensorCore, a: Operand, b: Operand, value: complex) -> tuple[Dtype, Tensor]:
    """Return the dtype of ``x + value * a * b``, and ``value * a * b`` in the dtype to add it in."""
    dtype = result_type(x, a, b)
    wide = wide_dtype(dtype)
    return dtype, f.multiply(scaled(a, value, wide), cast(b, wide))


def _scaled_quotient(x: TensorCore, a: Operand, b: Operand, value: complex) -> tuple[Dtype, Tensor]:
    """Return the dtype of ``x + value * a / b``, and ``value * a / b`` in the dtype to add it in."""
    dtype = result_type(x, a, b, 1.0)  # a quotient of integers is floating
    wide = wide_dtype(dtype)
    return dtype, f.divide(scaled(a, value, wide), cast(b, wide))


@composite
def _replace_nonfinite(x: Tensor, nan: float, high: float, low: float) -> Tensor:
    """Return `x` with infinities replaced by `high` and `low`, and nan by `nan`."""
    infinite = f.where(f.greater(x, 0), high, low)
    is_infinite, is_unknown = f.isinf(x), f.isnan(x)
    known = f.where(is_infinite, infinite, last_use(x))
    return f.where(is_unknown, nan, known)
