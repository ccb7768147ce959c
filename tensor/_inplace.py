"""Arithmetic in place: methods that end in an underscore, and augmented assignment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from tensor import _special
from tensor._core import TensorCore
from tensor._derivatives import RULES
from tensor._dispatch import explain, foreign, operand, overwrite

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensor._storage import Array
    from tensor._tensor import Tensor


def _binary(name: str, ufunc: np.ufunc, summary: str, *, operator: bool = False) -> Callable[[Any, Any], Any]:
    rule = RULES[name]

    def method(self: Tensor, other: Any) -> Any:
        given = operand(other)
        if given is NotImplemented:
            if operator:
                return NotImplemented
            raise foreign(rule.name, other)
        require_fit(rule.name, self, ufunc, given)
        del given  # a view's array in a variable would look like somebody who wants the old values
        return overwrite(rule, self, lambda array: ufunc(array, operand(other), out=array), (self, other))

    return _documented(method, f"{summary}\n\nThe result must fit the tensor's own shape and dtype.")


def _unary(
    name: str, kernel: Callable[..., Any], summary: str, data: str, result: str
) -> Callable[[Any], Any]:
    rule = RULES[name]

    def method(self: Tensor) -> Any:
        if isinstance(kernel, np.ufunc):
            require_fit(rule.name, self, kernel)
            return overwrite(rule, self, lambda array: kernel(array, out=array), (self,))
        require_float(rule.name, self)
        return overwrite(rule, self, lambda array: _copy(array, kernel(array)), (self,))

    example = (
        f"\n\nExamples\n--------\n>>> import tensor\n>>> tensor.tensor({data}).{name}_().tolist()\n{result}\n"
    )
    return _documented(method, summary + example)


def _documented(method: Callable[..., Any], text: str) -> Callable[..., Any]:
    method.__doc__ = text
    method.__module__ = __name__
    return method


def _copy(array: Array, values: Array) -> None:
    array[...] = values


def require_fit(name: str, x: TensorCore, ufunc: np.ufunc, *others: Any) -> None:
    """Raise, before anything is written, when the result would not fit the shape or dtype of `x`."""
    array = x._array
    if array is None:
        x._raise_disposed()
    shapes = [other.shape for other in others if isinstance(other, np.ndarray)]
    try:
        shape = np.broadcast_shapes(array.shape, *shapes)
    except ValueError as error:
        raise explain(name, error, (array, *others)) from None
    if shape != array.shape:
        raise ValueError(
            f"{name}_: the result has shape {shape}, which does not fit the tensor's {array.shape}: a "
            "write in place "
            f"can't grow it. Write x = x.{name}(...) instead"
        )
    kinds: list[Any] = [other.dtype if isinstance(other, np.ndarray) else type(other) for other in others]
    try:
        dtype = ufunc.resolve_dtypes((array.dtype, *kinds, None))[-1]
    except TypeError as error:
        raise explain(name, error, (array, *others)) from None
    if not np.can_cast(dtype, array.dtype, "same_kind"):
        raise TypeError(
            f"{name}_: the result is {dtype}, which does not fit the tensor's {array.dtype}: a write in "
            "place can't "
            f"change the dtype. Convert the tensor first (x.float()), or write x = x.{name}(...)"
        )


def require_float(name: str, x: TensorCore) -> None:
    """Raise, before anything is written, when `x` can't hold floating values."""
    x._raise_if_disposed()
    if x._array is not None and x._array.dtype.kind not in "fc":
        raise TypeError(
            f"{name}_: the result is floating, which does not fit the tensor's {x._array.dtype}: convert "
            "the tensor "
            "first (x.float())"
        )


class InPlace(TensorCore):
    """Writes to the tensor's own memory, seen by its views and aliases and by no clone."""

    __slots__ = ()

    subtract_ = sub_ = _binary("subtract", np.subtract, "Subtract `other` in place.")
    multiply_ = mul_ = _binary("multiply", np.multiply, "Multiply by `other` in place.")
    divide_ = div_ = _binary("divide", np.divide, "Divide by `other` in place.")
    floor_divide_ = _binary("floor_divide", np.floor_divide, "Divide by `other` in place, rounding down.")
    remainder_ = _binary("remainder", np.remainder, "Take the remainder by `other` in place.")
    pow_ = _binary("pow", np.power, "Raise to the power `other` in place.")
    bitwise_and_ = _binary("bitwise_and", np.bitwise_and, "Keep the bits that `other` has, in place.")
    bitwise_or_ = _binary("bitwise_or", np.bitwise_or, "Set the bits that `other` has, in place.")
    bitwise_xor_ = _binary("bitwise_xor", np.bitwise_xor, "Flip the bits that `other` has, in place.")

    __iadd__ = _binary("add", np.add, "Add in place.", operator=True)
    __isub__ = _binary("subtract", np.subtract, "Subtract in place.", operator=True)
    __imul__ = _binary("multiply", np.multiply, "Multiply in place.", operator=True)
    __itruediv__ = _binary("divide", np.divide, "Divide in place.", operator=True)
    __ifloordiv__ = _binary("floor_divide", np.floor_divide, "Divide in place, rounding down.", operator=True)
    __imod__ = _binary("remainder", np.remainder, "Take the remainder in place.", operator=True)
    __ipow__ = _binary("pow", np.power, "Raise to a power in place.", operator=True)
    __iand__ = _binary("bitwise_and", np.bitwise_and, "And in place.", operator=True)
    __ior__ = _binary("bitwise_or", np.bitwise_or, "Or in place.", operator=True)
    __ixor__ = _binary("bitwise_xor", np.bitwise_xor, "Exclusive or in place.", operator=True)
    __ilshift__ = _binary("bitwise_left_shift", np.left_shift, "Shift left in place.", operator=True)
    __irshift__ = _binary("bitwise_right_shift", np.right_shift, "Shift right in place.", operator=True)

    negative_ = neg_ = _unary("negative", np.negative, "Negate in place.", "[1.0]", "[-1.0]")
    abs_ = _unary("abs", np.abs, "Take absolute values in place.", "[-1.0]", "[1.0]")
    reciprocal_ = _unary("reciprocal", np.reciprocal, "Take 1 / x in place.", "[4.0]", "[0.25]")
    square_ = _unary("square", np.square, "Square in place.", "[3.0]", "[9.0]")
    exp_ = _unary("exp", np.exp, "Take e to the power x in place.", "[0.0]", "[1.0]")
    log_ = _unary("log", np.log, "Take logarithms in place.", "[1.0]", "[0.0]")
    sqrt_ = _unary("sqrt", np.sqrt, "Take square roots in place.", "[9.0]", "[3.0]")
    sin_ = _unary("sin", np.sin, "Take sines in place.", "[0.0]", "[0.0]")
    cos_ = _unary("cos", np.cos, "Take cosines in place.", "[0.0]", "[1.0]")
    tanh_ = _unary("tanh", np.tanh, "Take hyperbolic tangents in place.", "[0.0]", "[0.0]")
    ceil_ = _unary("ceil", np.ceil, "Round up in place.", "[1.2]", "[2.0]")
    floor_ = _unary("floor", np.floor, "Round down in place.", "[1.2]", "[1.0]")
    round_ = _unary("round", np.rint, "Round in place, halves to even.", "[1.2]", "[1.0]")
    sigmoid_ = _unary("sigmoid", _special.sigmoid, "Take 1 / (1 + exp(-x)) in place.", "[0.0]", "[0.5]")

    def add_(self, other: Any, *, alpha: complex = 1) -> Self:
        """Add `alpha` times `other` in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((1,)).add_(2.0, alpha=3).tolist()
        [7.0]
        """
        return cast("Self", _ADD(self, other if alpha == 1 else other * alpha))

    def relu_(self) -> Self:
        """Raise negative elements to 0 in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([-1.0, 2.0]).relu_().tolist()
        [0.0, 2.0]
        """
        x = cast("Tensor", self)
        x._raise_if_disposed()
        return cast("Self", overwrite(RULES["relu"], x, lambda array: np.maximum(array, 0, out=array), (x,)))

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        """Raise each element to `min` and lower it to `max`, in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.tensor([1.0, 5.0]).clamp_(2.0, 4.0).tolist()
        [2.0, 4.0]
        """
        return self.copy_(cast("Tensor", self).clamp(min, max))

    def addcmul_(self, tensor1: Any, tensor2: Any, *, value: complex = 1) -> Self:
        """Add `value` times `tensor1` times `tensor2` in place.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> tensor.ones((1,)).addcmul_(one, one, value=2.0).tolist()
        [3.0]
        """
        return self.add_(tensor1 * tensor2, alpha=value)

    def addcdiv_(self, tensor1: Any, tensor2: Any, *, value: complex = 1) -> Self:
        """Add `value` times `tensor1` / `tensor2` in place.

        Examples
        --------
        >>> import tensor
        >>> one = tensor.ones((1,))
        >>> tensor.ones((1,)).addcdiv_(one, one, value=2.0).tolist()
        [3.0]
        """
        return self.add_(tensor1 / tensor2, alpha=value)

    def lerp_(self, end: Any, weight: Any) -> Self:
        """Move toward `end` by the fraction `weight`, in place.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((1,)).lerp_(tensor.ones((1,)), 0.25).tolist()
        [0.25]
        """
        return self.copy_(cast("Tensor", self).lerp(end, weight))

    def fill_(self, value: Any) -> Self:
        """Set each element to `value`, a number or a tensor of one element.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).fill_(3).tolist()
        [3.0, 3.0]
        """
        if isinstance(value, TensorCore) and value._array is not None and value._array.size != 1:
            raise ValueError(
                f"fill_ takes one value, not shape {value._array.shape}: use copy_ for a whole tensor"
            )
        return self.copy_(value)

    def zero_(self) -> Self:
        """Set each element to 0.

        Examples
        --------
        >>> import tensor
        >>> tensor.ones((2,)).zero_().tolist()
        [0.0, 0.0]
        """
        return self.copy_(0)

    def copy_(self, source: Any) -> Self:
        """Write the values of `source`, which broadcasts and is cast to the tensor's dtype.

        Examples
        --------
        >>> import tensor
        >>> tensor.zeros((2,)).copy_(tensor.tensor([1, 2])).tolist()
        [1.0, 2.0]
        """
        x = cast("Tensor", self)
        given = operand(source)
        if given is NotImplemented:
            raise foreign("copy", source)
        array = x._array
        if array is None:
            x._raise_disposed()
        kind = np.asarray(given).dtype.kind
        if kind == "c" and array.dtype.kind != "c":
            raise TypeError(
                f"copy_: complex values don't fit a tensor of {array.dtype}: take their .real or .abs() first"
            )
        try:
            fits = np.broadcast_shapes(array.shape, np.shape(given)) == array.shape
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"copy_: shape {np.shape(given)} does not broadcast to the tensor's {array.shape}"
            )
        del array, given
        overwrite(
            RULES["copy"],
            x,
            lambda target: np.copyto(target, operand(source), casting="unsafe"),
            (x, source),
        )
        return self


_ADD = _binary("add", np.add, "Add in place.")
