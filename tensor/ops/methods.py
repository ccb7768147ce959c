"""The elementwise methods, with PyTorch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensor._errors import shown
from tensor.core.tensor import TensorCore
from tensor.ops import activations as nn
from tensor.ops import elementwise as f

if TYPE_CHECKING:
    from tensor._tensor import Tensor


class ElementwiseMethods(TensorCore):
    """The elementwise functions as methods, with PyTorch's names."""

    __slots__ = ()

    multiply = mul = f.multiply
    remainder = f.remainder
    floor_divide = f.floor_divide
    pow = f.pow
    maximum = f.maximum
    minimum = f.minimum
    hypot = f.hypot
    atan2 = f.atan2
    logaddexp = f.logaddexp
    copysign = f.copysign
    negative = neg = f.negative
    positive = f.positive
    absolute = abs = f.abs
    reciprocal = f.reciprocal
    square = f.square
    sign = sgn = f.sign
    ceil = f.ceil
    floor = f.floor
    trunc = f.trunc
    exp = f.exp
    exp2 = f.exp2
    expm1 = f.expm1
    log = f.log
    log1p = f.log1p
    log2 = f.log2
    log10 = f.log10
    sqrt = f.sqrt
    rsqrt = f.rsqrt
    sin = f.sin
    cos = f.cos
    tan = f.tan
    asin = f.asin
    acos = f.acos
    atan = f.atan
    sinh = f.sinh
    cosh = f.cosh
    tanh = f.tanh
    asinh = f.asinh
    acosh = f.acosh
    atanh = f.atanh
    conj = f.conj
    eq = f.equal
    ne = f.not_equal
    lt = f.less
    le = f.less_equal
    gt = f.greater
    ge = f.greater_equal
    logical_and = f.logical_and
    logical_or = f.logical_or
    logical_xor = f.logical_xor
    logical_not = f.logical_not
    isfinite = f.isfinite
    isinf = f.isinf
    isnan = f.isnan
    signbit = f.signbit
    bitwise_and = f.bitwise_and
    bitwise_or = f.bitwise_or
    bitwise_xor = f.bitwise_xor
    bitwise_not = f.bitwise_invert
    lerp = f.lerp
    relu = nn.relu
    sigmoid = nn.sigmoid
    erf = nn.erf
    erfc = nn.erfc

    def add(self, other: Any, *, alpha: complex = 1) -> Tensor:
        """Return the tensor plus `alpha` times `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).add(2.0, alpha=3).tolist()
        [7.0]
        """
        return f.add(self, _scaled(other, alpha))

    def sub(self, other: Any, *, alpha: complex = 1) -> Tensor:
        """Return the tensor less `alpha` times `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).sub(2.0, alpha=3).tolist()
        [-5.0]
        """
        return f.subtract(self, _scaled(other, alpha))

    subtract = sub

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: complex = 1) -> Tensor:
        """Return the tensor plus `value` times `tensor1` times `tensor2`.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> one.addcmul(one, 3.0, value=2).tolist()
        [7.0]
        """
        return f.add(self, f.multiply(_scaled(tensor1, value), tensor2))

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: complex = 1) -> Tensor:
        """Return the tensor plus `value` times `tensor1` / `tensor2`.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> one.addcdiv(one, 4.0, value=2).tolist()
        [1.5]
        """
        return f.add(self, f.divide(_scaled(tensor1, value), tensor2))

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """Return the quotient; `rounding_mode` is None, ``"floor"`` or ``"trunc"``: integers stay integers.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([7.0]).div(2.0, rounding_mode="floor").tolist()
        [3.0]
        """
        if rounding_mode not in (None, "floor", "trunc"):
            raise ValueError(f"div: rounding_mode is None, 'floor' or 'trunc', not {shown(rounding_mode)}")
        if rounding_mode == "floor":
            return f.floor_divide(self, other)
        if rounding_mode is None:
            return f.divide(self, other)
        down = f.floor_divide(self, other)
        if down.dtype.kind in "iu":
            # Rounded down is one too low where the quotient is negative and not whole.
            is_cut = f.not_equal(f.multiply(down, other), self)
            return f.add(down, f.logical_and(f.less(down, 0), is_cut))
        return f.trunc(f.divide(self, other))

    divide = div

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """Return the tensor with each element raised to `min` and lowered to `max`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp(max=3.0).tolist()
        [1.0, 3.0]
        """
        return f.clip(cast("Tensor", self), min, max)

    clip = clamp

    def clamp_min(self, min: Any) -> Tensor:
        """Return the tensor with each element raised to `min`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_min(3.0).tolist()
        [3.0, 5.0]
        """
        return f.clip(cast("Tensor", self), min)

    def clamp_max(self, max: Any) -> Tensor:
        """Return the tensor with each element lowered to `max`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_max(3.0).tolist()
        [1.0, 3.0]
        """
        return f.clip(cast("Tensor", self), None, max)

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> Tensor:
        """Return where the tensor is within `atol` + `rtol` * abs(other) of `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 1.1]).isclose(1.000001).tolist()
        [True, False]
        """
        return f.isclose(cast("Tensor", self), other, rtol=rtol, atol=atol)

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        """Return whether ``isclose`` holds for all elements.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 1.1]).allclose(tensor.tensor([1.0, 1.1]))
        True
        """
        return f.allclose(cast("Tensor", self), other, rtol=rtol, atol=atol)

    def equal(self, other: Any) -> bool:
        """Return whether `other` has the same shape and the same values; ``eq`` compares by element.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).equal(tensor.ones((2,))), tensor.ones((2,)).equal(tensor.ones((3,)))
        (True, False)
        """
        same = cast("Tensor", self).shape == cast("Tensor", other).shape
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

    def where(self, condition: Any, other: Any) -> Tensor:
        """Return the tensor where `condition` is true and `other` elsewhere.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([1.0, -2.0])
        >>> x.where(x > 0, 0.0).tolist()
        [1.0, 0.0]
        """
        return f.where(condition, self, other)


def _scaled(other: Any, factor: complex) -> Any:
    """Return `other` times `factor`; a number stays one, and adapts to the dtype of a tensor beside it."""
    if isinstance(factor, (int, float)) and factor == 1:
        return other
    return other * factor if isinstance(other, (int, float, complex)) else f.multiply(other, factor)
