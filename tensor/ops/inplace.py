"""Arithmetic in place: methods that end in an underscore, and augmented assignment.

The write is seen by the tensor's views and aliases, and by no clone; gradients flow as through the ordinary
op. A result that would need another shape or dtype is an error, and nothing is written then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tensor.kernels import arithmetic, special
from tensor.kernels.special import relu_of
from tensor.kernels.ufuncs import compute_into
from tensor.ops import elementwise as f
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import operand, overwrite, write_plainly
from tensor.ops.messages import Operand, explain, foreign
from tensor.ops.writing import Writing, become, of_other_dtype
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._dtypes import Array
    from tensor._tensor import Tensor


def _misfit(name: str, error: Exception, array: Array, *others: Any) -> Exception:
    """Return the error to raise when NumPy refused to write the result of `name` into `array`."""
    if "non-broadcastable output" in str(error):
        return ValueError(
            f"{name}_: the result has a larger shape than the tensor's {array.shape}: a write in place can't "
            f"grow it. Write x = x.{name}(...) instead"
        )
    # NumPy's own error for a result that can't be cast says from what.
    found = getattr(error, "from_", None)
    if found is not None:
        return of_other_dtype(name, found, array)
    return explain(f"{name}_", error, (array, *others))


def _binary(name: str, ufunc: np.ufunc, *, operator: bool = False) -> Callable[[Any, Any], Any]:
    rule = RULES[name]
    # Integers have no negative powers, which NumPy finds half way.
    may_stop = ufunc is np.power

    def method(self: Tensor, other: Any, /) -> Any:
        try:
            given = other._array
            node = other._node
        except AttributeError:
            given = operand(other)
            node = None
            if given is NotImplemented:
                if operator:
                    return NotImplemented
                raise foreign(f"{name}_", other) from None
        if self._array is None:
            self._raise_disposed()
        if given is None:
            other._raise_disposed()
        if may_stop:
            _require_powers(self._array, given)

        def write(array: Array) -> None:
            # The other's array only now: making room for the write may have moved it.
            given = operand(other)
            try:
                compute_into(ufunc, (array, given), array)
            except (TypeError, ValueError, OverflowError) as error:
                raise _misfit(name, error, array, given) from None

        del given  # a reference to an array would look like somebody who wants the old values
        if self._node is None and node is None:
            write_plainly(self, write)
            return self
        return overwrite(rule, self, write, (self, other))

    return method


def _of_two(
    name: str, ufunc: np.ufunc, summary: str, x: str, other: str, result: str
) -> Callable[[Any, Any], Any]:
    text = f"{summary}\n\nThe result must fit the tensor's shape and dtype."
    return _documented(_binary(name, ufunc), name, text, x, f"{name}_({other})", result)


def _require_powers(array: Array, exponents: Any) -> None:
    if array.dtype.kind in "iu" and np.asarray(exponents).dtype.kind in "iu" and np.any(exponents < 0):
        raise ValueError(
            f"pow_: integers have no negative integer powers, and the tensor is {array.dtype}: convert it "
            "with x.float()"
        )


def _unary(name: str, kernel: Callable[..., Any], summary: str, x: str, result: str) -> Callable[[Any], Any]:
    rule = RULES[name]

    def into(array: Array) -> None:
        try:
            compute_into(kernel, (array,), array)
        except (TypeError, ValueError) as error:
            raise _misfit(name, error, array) from None

    def over(array: Array) -> None:
        out = kernel(array)
        if not np.can_cast(out.dtype, array.dtype, "same_kind"):
            raise of_other_dtype(name, out.dtype, array)
        array[...] = out

    write = into if isinstance(kernel, np.ufunc) else over

    def method(self: Tensor, /) -> Any:
        if self._array is None:
            self._raise_disposed()
        if self._node is None:
            write_plainly(self, write)
            return self
        return overwrite(rule, self, write, (self,))

    return _documented(method, name, summary, x, f"{name}_()", result)


def _documented(
    method: Callable[..., Any], name: str, text: str, x: str, call: str, result: str
) -> Callable[..., Any]:
    method.__name__ = f"{name}_"
    method.__qualname__ = f"InPlace.{name}_"
    method.__module__ = __name__
    method.__doc__ = (
        f"{text}\n\nExamples\n--------\n>>> import tensor\n>>> tensor.tensor({x}).{call}.tolist()\n{result}\n"
    )
    return method


_add = _binary("add", np.add)
_subtract = _binary("subtract", np.subtract)
_divide = _binary("divide", np.divide)


def _scaled(x: Operand, alpha: complex) -> Operand:
    if isinstance(x, (int, float, complex)):
        return x * alpha  # still a number that adapts to the tensor's dtype
    return x if alpha == 1 else f.multiply(x, alpha)


def _abs(x: Array) -> Any:
    if x.dtype.kind == "c":
        raise TypeError(
            f"abs_: absolute values are real, and the tensor is {x.dtype}. Write x = x.abs() instead"
        )
    return np.abs(x)


class InPlace(Writing):
    """Writes to the tensor's own memory."""

    __slots__ = ()

    multiply_ = mul_ = _of_two("multiply", np.multiply, "Multiply by `other` in place.", "[2]", "3", "[6]")
    floor_divide_ = _of_two("floor_divide", np.floor_divide, "Divide, rounding down.", "[5]", "2", "[2]")
    remainder_ = _of_two("remainder", np.remainder, "Take the remainder in place.", "[5]", "3", "[2]")
    pow_ = _of_two("pow", np.power, "Raise to the power `other` in place.", "[3.0]", "2", "[9.0]")
    bitwise_and_ = _of_two("bitwise_and", np.bitwise_and, "Keep the bits of `other`.", "[6]", "3", "[2]")
    bitwise_or_ = _of_two("bitwise_or", np.bitwise_or, "Set the bits of `other`.", "[6]", "3", "[7]")
    bitwise_xor_ = _of_two("bitwise_xor", np.bitwise_xor, "Flip the bits of `other`.", "[6]", "3", "[5]")

    __iadd__ = _binary("add", np.add, operator=True)
    __isub__ = _binary("subtract", np.subtract, operator=True)
    __imul__ = _binary("multiply", np.multiply, operator=True)
    __itruediv__ = _binary("divide", np.divide, operator=True)
    __ifloordiv__ = _binary("floor_divide", np.floor_divide, operator=True)
    __imod__ = _binary("remainder", np.remainder, operator=True)
    __ipow__ = _binary("pow", np.power, operator=True)
    __iand__ = _binary("bitwise_and", np.bitwise_and, operator=True)
    __ior__ = _binary("bitwise_or", np.bitwise_or, operator=True)
    __ixor__ = _binary("bitwise_xor", np.bitwise_xor, operator=True)
    __ilshift__ = _binary("bitwise_left_shift", np.left_shift, operator=True)
    __irshift__ = _binary("bitwise_right_shift", np.right_shift, operator=True)

    negative_ = neg_ = _unary("negative", np.negative, "Negate in place.", "[1.0]", "[-1.0]")
    abs_ = _unary("abs", _abs, "Take absolute values in place.", "[-1.0]", "[1.0]")
    reciprocal_ = _unary("reciprocal", np.reciprocal, "Take 1 / x in place.", "[4.0]", "[0.25]")
    square_ = _unary("square", np.square, "Square in place.", "[3.0]", "[9.0]")
    sign_ = _unary("sign", np.sign, "Take signs in place.", "[-3.0]", "[-1.0]")
    exp_ = _unary("exp", np.exp, "Take e to the power x in place.", "[0.0]", "[1.0]")
    exp2_ = _unary("exp2", np.exp2, "Take 2 to the power x in place.", "[3.0]", "[8.0]")
    expm1_ = _unary("expm1", np.expm1, "Take exp(x) - 1 in place.", "[0.0]", "[0.0]")
    log_ = _unary("log", np.log, "Take natural logarithms in place.", "[1.0]", "[0.0]")
    log1p_ = _unary("log1p", np.log1p, "Take log(1 + x) in place.", "[0.0]", "[0.0]")
    log2_ = _unary("log2", np.log2, "Take logarithms to base 2 in place.", "[8.0]", "[3.0]")
    log10_ = _unary("log10", np.log10, "Take logarithms to base 10 in place.", "[1.0]", "[0.0]")
    sqrt_ = _unary("sqrt", np.sqrt, "Take square roots in place.", "[9.0]", "[3.0]")
    rsqrt_ = _unary("rsqrt", arithmetic.reciprocal_root, "Take 1 / sqrt(x) in place.", "[4.0]", "[0.5]")
    sin_ = _unary("sin", np.sin, "Take sines in place.", "[0.0]", "[0.0]")
    cos_ = _unary("cos", np.cos, "Take cosines in place.", "[0.0]", "[1.0]")
    tan_ = _unary("tan", np.tan, "Take tangents in place.", "[0.0]", "[0.0]")
    asin_ = _unary("asin", np.arcsin, "Take inverse sines in place.", "[0.0]", "[0.0]")
    acos_ = _unary("acos", np.arccos, "Take inverse cosines in place.", "[1.0]", "[0.0]")
    atan_ = _unary("atan", np.arctan, "Take inverse tangents in place.", "[0.0]", "[0.0]")
    sinh_ = _unary("sinh", np.sinh, "Take hyperbolic sines in place.", "[0.0]", "[0.0]")
    cosh_ = _unary("cosh", np.cosh, "Take hyperbolic cosines in place.", "[0.0]", "[1.0]")
    tanh_ = _unary("tanh", np.tanh, "Take hyperbolic tangents in place.", "[0.0]", "[0.0]")
    ceil_ = _unary("ceil", np.ceil, "Round up in place.", "[1.2]", "[2.0]")
    floor_ = _unary("floor", np.floor, "Round down in place.", "[1.2]", "[1.0]")
    trunc_ = _unary("trunc", np.trunc, "Round toward zero in place.", "[-1.2]", "[-1.0]")
    round_ = _unary("round", np.round, "Round in place, halves to even.", "[1.2]", "[1.0]")
    sigmoid_ = _unary("sigmoid", special.sigmoid, "Take 1 / (1 + exp(-x)) in place.", "[0.0]", "[0.5]")
    relu_ = _unary("relu", relu_of, "Raise negative elements to 0 in place.", "[-1.0, 2.0]", "[0.0, 2.0]")

    def add_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Add `alpha` times `other` in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).add_(2.0, alpha=3).tolist()
        [7.0]
        """
        _add(self, _scaled(other, alpha))
        return self

    def sub_(self, other: Operand, *, alpha: complex = 1) -> Self:
        """Subtract `alpha` times `other` in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).sub_(2.0, alpha=3).tolist()
        [-5.0]
        """
        _subtract(self, _scaled(other, alpha))
        return self

    subtract_ = sub_

    def div_(self, other: Operand, *, rounding_mode: str | None = None) -> Self:
        """Divide by `other` in place; `rounding_mode` is None, ``"floor"`` or ``"trunc"``.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([7, -7]).div_(2, rounding_mode="floor").tolist()
        [3, -4]
        """
        if rounding_mode is None:
            _divide(self, other)
        else:
            x = as_tensor(self)
            become("div", x, x.div(other, rounding_mode=rounding_mode))
        return self

    divide_ = div_

    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """Raise each element to `min` and lower it to `max`, in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_(2.0, 4.0).tolist()
        [2.0, 4.0]
        """
        x = as_tensor(self)
        become("clamp", x, x.clamp(min, max))
        return self

    clip_ = clamp_

    def addcmul_(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Add `value` times `tensor1` times `tensor2` in place.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> tensor.ones((1,)).addcmul_(one, one, value=2.0).tolist()
        [3.0]
        """
        return self.add_(f.multiply(tensor1, tensor2), alpha=value)

    def addcdiv_(self, tensor1: Operand, tensor2: Operand, *, value: complex = 1) -> Self:
        """Add `value` times `tensor1` / `tensor2` in place.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> tensor.ones((1,)).addcdiv_(one, one, value=2.0).tolist()
        [3.0]
        """
        return self.add_(f.divide(tensor1, tensor2), alpha=value)

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
