"""Elementwise methods composed of other ops: names of PyTorch that the array API standard lacks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scopes.lowlevel import ModuleOnDemand
from tensor._dtypes import Array, float64, is_floating, result_type
from tensor._errors import InvalidArgumentError
from tensor.core.donation import composite
from tensor.core.tensor import TensorCore, wrap
from tensor.kernels.context import run_kernel
from tensor.ops import elementwise as f
from tensor.ops.data import as_data, as_tensor
from tensor.ops.in_place import with_in_place
from tensor.ops.messages import Operand
from tensor.ops.scaling import cast, require_whole, scaled, wide_dtype

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.ops import results
    from tensor.ops.results import Frexp
else:
    results = ModuleOnDemand("tensor.ops.results")


@with_in_place("frac deg2rad rad2deg sinc heaviside gcd lcm ldexp float_power mvlgamma")
class Arithmetic(TensorCore):
    """Elementwise methods that are composed of other ops."""

    __slots__ = ()

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
            return f.subtract(other, self)
        require_whole("rsub", alpha, self, other)
        dtype = result_type(self, other)
        subtrahend = scaled(self, alpha, wide_dtype(dtype))
        return cast(f.subtract(other, subtrahend), dtype)

    @composite
    def deg2rad(self) -> Tensor:
        """Return the angles, in degrees, as radians.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([180.0]).deg2rad().tolist() == [tensor.tensor(tensor.pi).item()]
        True
        """
        return f.multiply(self, math.pi / 180)

    @composite
    def rad2deg(self) -> Tensor:
        """Return the angles, in radians, as degrees.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([tensor.pi]).rad2deg().tolist()
        [180.0]
        """
        return f.multiply(self, 180 / math.pi)

    @composite
    def frac(self) -> Tensor:
        """Return the fractional part of each element, with its sign.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.5, -1.5]).frac().tolist()
        [0.5, -0.5]
        """
        return f.subtract(self, f.trunc(self))

    @composite
    def sinc(self) -> Tensor:
        """Return sin(pi x) / (pi x), and 1 at 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([0.0, 0.5]).sinc().tolist()[0]
        1.0
        """
        x = f.multiply(self, math.pi)
        is_zero = f.equal(x, 0)
        # At 0, use the series 1 - x * x / 6, which has the right derivatives.
        return f.where(is_zero, 1 - x * x / 6, f.divide(f.sin(x), f.where(is_zero, 1.0, x)))

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
        return f.where(f.logical_or(f.greater_equal(x, y), f.isnan(y)), x, y)

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
        return f.where(f.logical_or(f.less_equal(x, y), f.isnan(y)), x, y)

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
        step = f.where(f.isnan(x), x, f.greater(x, 0).to(x.dtype))
        return f.where(f.equal(x, 0), as_tensor(values), step).detach()

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
        return f.multiply(self, f.pow(2.0, other))

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
        powers = [f.multiply(cast(x, wide), scale) for x in (self, other)]
        return cast(f.divide(f.logaddexp(*powers), scale), dtype)

    @composite
    def float_power(self, exponent: Operand) -> Tensor:
        """Return the tensor to the power `exponent`, computed in float64.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([2, 3]).float_power(2).tolist()
        [4.0, 9.0]
        """
        x = as_tensor(self)
        base = x if x.is_complex() else x.to(float64)
        return f.pow(base, exponent.to(float64) if isinstance(exponent, TensorCore) else exponent)  # type: ignore[attr-defined]

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
        return results.Frexp(f.divide(x, f.pow(2.0, powers.to(x.dtype))), powers)

    @composite
    def isposinf(self) -> Tensor:
        """Return where the tensor is positive infinity.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([tensor.inf, -tensor.inf]).isposinf().tolist()
        [True, False]
        """
        return f.equal(self, math.inf)

    @composite
    def isneginf(self) -> Tensor:
        """Return where the tensor is negative infinity.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([tensor.inf, -tensor.inf]).isneginf().tolist()
        [False, True]
        """
        return f.equal(self, -math.inf)

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
        return f.equal(x.imag, 0) if x.is_complex() else x.new_ones(x.shape, dtype="bool")

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
            return f.atan2(x.imag, x.real)
        floating = x if is_floating(x.dtype) else x.to(np.float32)
        found = f.where(f.less(floating, 0), math.pi, f.multiply(floating, 0.0))
        return f.where(
            f.isnan(floating), floating, f.where(f.isinf(floating) & f.greater(floating, 0), 0.0, found)
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
        if f.less_equal(floating, (p - 1) / 2).any():
            raise InvalidArgumentError(
                f"mvlgamma: all elements must be greater than (p - 1) / 2 = {(p - 1) / 2}"
            )
        out = floating.lgamma()
        for i in range(1, p):
            out = out + (floating - i / 2).lgamma()
        return out + p * (p - 1) / 4 * math.log(math.pi)


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
