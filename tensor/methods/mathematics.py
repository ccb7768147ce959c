"""Mathematical functions of each element as methods.

The functions are in ``tensor/ops/elementwise.py`` and ``gamma.py``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from tensor._dtypes import float32, is_floating, is_inexact, result_type
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import TensorCore, composite, last_use
from tensor.ops import elementwise, table
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import apply
from tensor.ops.gamma import bessel_i, polygamma
from tensor.ops.in_place import write_binary, write_unary
from tensor.ops.messages import Operand
from tensor.ops.scaling import cast, rounded_to, wide_dtype
from tensor.ops.writing import become
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor import _numeric_limits
    from tensor._tensor import Tensor
    from tensor.kernels import gamma
else:
    _numeric_limits = ModuleOnDemand("tensor._numeric_limits")
    gamma = ModuleOnDemand("tensor.kernels.gamma")


class Mathematics(TensorCore):
    """Mathematical functions of each element as methods."""

    __slots__ = ()

    # --- The functions of `tensor` as methods ---------------------------------------------------------------

    tanh: Final = elementwise.tanh
    conj: Final = elementwise.conj
    exp: Final = elementwise.exp
    exp2: Final = elementwise.exp2
    expm1: Final = elementwise.expm1
    log: Final = elementwise.log
    log1p: Final = elementwise.log1p
    log2: Final = elementwise.log2
    log10: Final = elementwise.log10
    sqrt: Final = elementwise.sqrt
    rsqrt: Final = elementwise.rsqrt
    sin: Final = elementwise.sin
    cos: Final = elementwise.cos
    tan: Final = elementwise.tan
    asin: Final = elementwise.asin
    acos: Final = elementwise.acos
    atan: Final = elementwise.atan
    sinh: Final = elementwise.sinh
    cosh: Final = elementwise.cosh
    asinh: Final = elementwise.asinh
    acosh: Final = elementwise.acosh
    atanh: Final = elementwise.atanh
    relu: Final = elementwise.relu
    sigmoid: Final = elementwise.sigmoid
    erf: Final = elementwise.erf
    erfinv: Final = elementwise.erfinv
    erfc: Final = elementwise.erfc
    arcsin: Final = elementwise.asin
    arccos: Final = elementwise.acos
    arctan: Final = elementwise.atan
    arcsinh: Final = elementwise.asinh
    arccosh: Final = elementwise.acosh
    arctanh: Final = elementwise.atanh

    # --- Methods with PyTorch's arguments -------------------------------------------------------------------

    def atan2(self, other: Operand) -> Tensor:
        """Return the angle of the point with the height of the tensor and the width `other`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).atan2(other=tensor.tensor([1.0])).tolist()
        [0.0]
        """
        return table.atan2(self, other)

    arctan2 = atan2

    def logaddexp(self, other: Operand) -> Tensor:
        """Return log(exp(x) + exp(other)), also for large values.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1000.0]).logaddexp(tensor.tensor([0.0])).tolist()
        [1000.0]
        """
        return table.logaddexp(self, other)

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
        limits = _numeric_limits.finfo(x.dtype)
        high = limits.max if posinf is None else posinf
        low = limits.min if neginf is None else neginf
        return _replace_nonfinite(x, nan, high, low)

    @composite
    def logit(self, eps: float | None = None) -> Tensor:
        """Return log(x / (1 - x)). With `eps`, first clamp the tensor to `[eps, 1 - eps]`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.5]).logit().tolist()
        [0.0]
        """
        x = as_tensor(self) if eps is None else as_tensor(self).clamp(eps, 1 - eps)
        # Use 1.0 instead of 1, because integers of a small dtype would wrap around.
        rest = elementwise.subtract(1.0, x)
        return elementwise.log(elementwise.divide(last_use(x), rest))

    @composite
    def xlogy(self, other: Operand) -> Tensor:
        """Return the tensor times log(other), and 0 where the tensor is 0 and `other` is not nan.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0, 2.0]).xlogy(tensor.tensor([0.0, 1.0])).tolist()
        [0.0, 0.0]
        """
        dtype = result_type(self, other)
        if not is_inexact(dtype):
            dtype = float32
        # The logarithm has the precision of the result, not that of `other`.
        y = as_tensor(other).to(dtype) if isinstance(other, TensorCore) else np.asarray(other, dtype)
        x = rounded_to(dtype, self)  # the first operand may be a number, as in torch.xlogy(2.0, y)
        is_zero = elementwise.logical_and(
            elementwise.equal(x, 0), elementwise.logical_not(elementwise.isnan(y))
        )
        return elementwise.multiply(last_use(x), elementwise.log(elementwise.where(is_zero, 1.0, y)))

    @composite
    def deg2rad(self) -> Tensor:
        """Return the angles, in degrees, as radians.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([180.0]).deg2rad().tolist() == [tensor.tensor(tensor.pi).item()]
        True
        """
        return elementwise.multiply(self, math.pi / 180)

    @composite
    def rad2deg(self) -> Tensor:
        """Return the angles, in radians, as degrees.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([tensor.pi]).rad2deg().tolist()
        [180.0]
        """
        return elementwise.multiply(self, 180 / math.pi)

    @composite
    def sinc(self) -> Tensor:
        """Return sin(pi x) / (pi x), and 1 at 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0, 0.5]).sinc().tolist()[0]
        1.0
        """
        x = elementwise.multiply(self, math.pi)
        is_zero = elementwise.equal(x, 0)
        # At 0, use the series 1 - x * x / 6, which has the right derivatives.
        return elementwise.where(
            is_zero, 1 - x * x / 6, elementwise.divide(elementwise.sin(x), elementwise.where(is_zero, 1.0, x))
        )

    @composite
    def logaddexp2(self, other: Tensor) -> Tensor:
        """Return log2(2**x + 2**other) without overflow.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).logaddexp2(tensor.ones((1,))).tolist()
        [2.0]
        """
        scale = math.log(2)
        dtype = result_type(self, other, 1.0)
        wide = wide_dtype(dtype)
        powers = [elementwise.multiply(cast(x, wide), scale) for x in (self, other)]
        return cast(elementwise.divide(elementwise.logaddexp(*powers), scale), dtype)

    @composite
    def angle(self) -> Tensor:
        """Return the angle of each complex number in radians; 0 or pi for real ones.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1j]).angle().tolist() == tensor.tensor([tensor.pi / 2]).tolist()
        True
        """
        x = as_tensor(self)
        if x.is_complex():
            return elementwise.atan2(x.imag, x.real)
        floating = x if is_floating(x.dtype) else x.to(np.float32)
        found = elementwise.where(elementwise.less(floating, 0), math.pi, elementwise.multiply(floating, 0.0))
        return elementwise.where(
            elementwise.isnan(floating),
            floating,
            elementwise.where(elementwise.isinf(floating) & elementwise.greater(floating, 0), 0.0, found),
        )

    @composite
    def mvlgamma(self, p: int) -> Tensor:
        """Return the logarithm of the multivariate gamma function of dimension `p`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2.0]).mvlgamma(1).tolist() == tensor.tensor([2.0]).lgamma().tolist()
        True
        """
        x = as_tensor(self)
        if p < 1:
            raise InvalidArgumentError(f"mvlgamma: p must be at least 1, not {p}")
        floating = x if is_floating(x.dtype) else x.to(np.float32)
        if elementwise.less_equal(floating, (p - 1) / 2).any():
            raise InvalidArgumentError(
                f"mvlgamma: all elements must be greater than (p - 1) / 2 = {(p - 1) / 2}"
            )
        out = floating.lgamma()
        for i in range(1, p):
            out = out + (floating - i / 2).lgamma()
        return out + p * (p - 1) / 4 * math.log(math.pi)

    @composite
    def lgamma(self) -> Tensor:
        """Return the logarithm of the absolute value of the gamma function.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 2.0]).lgamma().tolist()
        [0.0, 0.0]
        """
        return apply(RULES["lgamma"], gamma.lgamma, (self,))

    @composite
    def digamma(self) -> Tensor:
        """Return the derivative of ``lgamma``.

        Examples
        --------
        >>> import tensor
        >>> f"{tensor.tensor([1.0]).digamma().item():.4f}"
        '-0.5772'
        """
        return polygamma(0, as_tensor(self))

    @composite
    def polygamma(self, n: int) -> Tensor:
        """Return the `n`-th derivative of digamma.

        Examples
        --------
        >>> import tensor
        >>> round(tensor.tensor([1.0]).polygamma(1).item(), 4)
        1.6449
        """
        return polygamma(n, as_tensor(self))

    @composite
    def i0(self) -> Tensor:
        """Return the modified Bessel function of the first kind, of order 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).i0().tolist()
        [1.0]
        """
        return bessel_i(0, False, as_tensor(self))

    # --- In place -------------------------------------------------------------------------------------------

    def atan2_(self, other: Operand) -> Self:
        """Set each element `x1` to the angle of the point (other, x1), in radians.

        The result must fit the shape and dtype of the tensor.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).atan2_(1.0).tolist()
        [0.0]
        """
        return write_binary(table.atan2, self, other)

    arctan2_ = atan2_

    def exp_(self) -> Self:
        """Set each element `x` to e to the power `x`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).exp_().tolist()
        [1.0]
        """
        return write_unary(table.exp, self)

    def exp2_(self) -> Self:
        """Set each element `x` to 2 to the power `x`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([3.0]).exp2_().tolist()
        [8.0]
        """
        return write_unary(table.exp2, self)

    def expm1_(self) -> Self:
        """Set each element `x` to exp(x) - 1, precise near 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).expm1_().tolist()
        [0.0]
        """
        return write_unary(table.expm1, self)

    def log_(self) -> Self:
        """Set each element `x` to the natural logarithm.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0]).log_().tolist()
        [0.0]
        """
        return write_unary(table.log, self)

    def log1p_(self) -> Self:
        """Set each element `x` to log(1 + x), precise near 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).log1p_().tolist()
        [0.0]
        """
        return write_unary(table.log1p, self)

    def log2_(self) -> Self:
        """Set each element `x` to the logarithm to base 2.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([8.0]).log2_().tolist()
        [3.0]
        """
        return write_unary(table.log2, self)

    def log10_(self) -> Self:
        """Set each element `x` to the logarithm to base 10.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0]).log10_().tolist()
        [0.0]
        """
        return write_unary(table.log10, self)

    def sqrt_(self) -> Self:
        """Set each element `x` to the square root.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([9.0]).sqrt_().tolist()
        [3.0]
        """
        return write_unary(table.sqrt, self)

    def rsqrt_(self) -> Self:
        """Set each element `x` to 1 / sqrt(x).

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([4.0]).rsqrt_().tolist()
        [0.5]
        """
        return write_unary(table.rsqrt, self)

    def sin_(self) -> Self:
        """Set each element `x` to the sine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).sin_().tolist()
        [0.0]
        """
        return write_unary(table.sin, self)

    def cos_(self) -> Self:
        """Set each element `x` to the cosine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).cos_().tolist()
        [1.0]
        """
        return write_unary(table.cos, self)

    def tan_(self) -> Self:
        """Set each element `x` to the tangent.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).tan_().tolist()
        [0.0]
        """
        return write_unary(table.tan, self)

    def asin_(self) -> Self:
        """Set each element `x` to the inverse sine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).asin_().tolist()
        [0.0]
        """
        return write_unary(table.asin, self)

    arcsin_ = asin_

    def acos_(self) -> Self:
        """Set each element `x` to the inverse cosine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0]).acos_().tolist()
        [0.0]
        """
        return write_unary(table.acos, self)

    arccos_ = acos_

    def atan_(self) -> Self:
        """Set each element `x` to the inverse tangent.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).atan_().tolist()
        [0.0]
        """
        return write_unary(table.atan, self)

    arctan_ = atan_

    def sinh_(self) -> Self:
        """Set each element `x` to the hyperbolic sine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).sinh_().tolist()
        [0.0]
        """
        return write_unary(table.sinh, self)

    def cosh_(self) -> Self:
        """Set each element `x` to the hyperbolic cosine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).cosh_().tolist()
        [1.0]
        """
        return write_unary(table.cosh, self)

    def asinh_(self) -> Self:
        """Set each element `x` to the inverse hyperbolic sine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).asinh_().tolist()
        [0.0]
        """
        return write_unary(table.asinh, self)

    arcsinh_ = asinh_

    def acosh_(self) -> Self:
        """Set each element `x` to the inverse hyperbolic cosine.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0]).acosh_().tolist()
        [0.0]
        """
        return write_unary(table.acosh, self)

    arccosh_ = acosh_

    def atanh_(self) -> Self:
        """Set each element `x` to the inverse hyperbolic tangent.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).atanh_().tolist()
        [0.0]
        """
        return write_unary(table.atanh, self)

    arctanh_ = atanh_

    def relu_(self) -> Self:
        """Set each element `x` to the larger of `x` and 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([-1.0, 2.0]).relu_().tolist()
        [0.0, 2.0]
        """
        return write_unary(table.relu, self)

    def sigmoid_(self) -> Self:
        """Set each element `x` to 1 / (1 + exp(-x)).

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).sigmoid_().tolist()
        [0.5]
        """
        return write_unary(table.sigmoid, self)

    def erf_(self) -> Self:
        """Set each element `x` to the error function.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).erf_().tolist()
        [0.0]
        """
        return write_unary(table.erf, self)

    def erfinv_(self) -> Self:
        """Set each element `x` to the inverse of the error function.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).erfinv_().tolist()
        [0.0]
        """
        return write_unary(table.erfinv, self)

    def erfc_(self) -> Self:
        """Set each element `x` to 1 - erf(x), precise for large `x`.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).erfc_().tolist()
        [1.0]
        """
        return write_unary(table.erfc, self)

    def tanh_(self) -> Self:
        """Set each element `x` to the hyperbolic tangent.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0]).tanh_().tolist()
        [0.0]
        """
        return write_unary(table.tanh, self, np.tanh)

    @composite
    def nan_to_num_(self, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Self:
        """Write the result of ``nan_to_num`` to the tensor, which keeps its shape and dtype."""
        become("nan_to_num", as_tensor(self), as_tensor(self).nan_to_num(nan, posinf, neginf))
        return self

    @composite
    def xlogy_(self, other: Operand) -> Self:
        """Write the result of ``xlogy`` to the tensor, which keeps its shape and dtype."""
        become("xlogy", as_tensor(self), as_tensor(self).xlogy(other))
        return self

    @composite
    def logit_(self, eps: float | None = None) -> Self:
        """Write the result of ``logit`` to the tensor, which keeps its shape and dtype."""
        become("logit", as_tensor(self), as_tensor(self).logit(eps))
        return self

    @composite
    def deg2rad_(self) -> Self:
        """Write the result of ``deg2rad`` to the tensor, which keeps its shape and dtype."""
        become("deg2rad", as_tensor(self), as_tensor(self).deg2rad())
        return self

    @composite
    def rad2deg_(self) -> Self:
        """Write the result of ``rad2deg`` to the tensor, which keeps its shape and dtype."""
        become("rad2deg", as_tensor(self), as_tensor(self).rad2deg())
        return self

    @composite
    def sinc_(self) -> Self:
        """Write the result of ``sinc`` to the tensor, which keeps its shape and dtype."""
        become("sinc", as_tensor(self), as_tensor(self).sinc())
        return self

    @composite
    def mvlgamma_(self, p: int) -> Self:
        """Write the result of ``mvlgamma`` to the tensor, which keeps its shape and dtype."""
        become("mvlgamma", as_tensor(self), as_tensor(self).mvlgamma(p))
        return self

    @composite
    def lgamma_(self) -> Self:
        """Write the result of ``lgamma`` to the tensor, which keeps its shape and dtype."""
        become("lgamma", as_tensor(self), as_tensor(self).lgamma())
        return self

    @composite
    def i0_(self) -> Self:
        """Write the result of ``i0`` to the tensor, which keeps its shape and dtype."""
        become("i0", as_tensor(self), as_tensor(self).i0())
        return self

    @composite
    def digamma_(self) -> Self:
        """Write the result of ``digamma`` to the tensor, which keeps its shape and dtype."""
        become("digamma", as_tensor(self), as_tensor(self).digamma())
        return self

    @composite
    def polygamma_(self, n: int) -> Self:
        """Write the result of ``polygamma`` to the tensor, which keeps its shape and dtype."""
        become("polygamma", as_tensor(self), as_tensor(self).polygamma(n))
        return self


@composite
def _cloned(x: Tensor) -> Tensor:
    return x.clone()


@composite
def _replace_nonfinite(x: Tensor, nan: float, high: float, low: float) -> Tensor:
    """Return `x` with infinities replaced by `high` and `low`, and nan by `nan`."""
    # Each number is an operand beside a tensor, whose dtype it takes.
    is_high, is_low = elementwise.equal(x, math.inf), elementwise.equal(x, -math.inf)
    is_unknown = elementwise.isnan(x)
    known = elementwise.where(is_low, low, elementwise.where(is_high, high, last_use(x)))
    return elementwise.where(is_unknown, nan, known)
