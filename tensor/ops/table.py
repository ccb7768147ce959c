"""Create functions with ``out=`` and in-place methods from the table of elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from tensor._dtypes import Array, fits
from tensor._errors import InvalidArgumentError
from tensor.core.bfloat16 import in_float32, write_wide
from tensor.core.tensor import TensorCore
from tensor.kernels.elementwise import BinaryKernel, UnaryKernel
from tensor.kernels.ufuncs import COMPILED, compute_into
from tensor.ops.dispatch import BinaryOp, UnaryOp, function_of, operand, overwrite, write_plainly
from tensor.ops.messages import Operand, explain, foreign
from tensor.ops.outputs import run_into
from tensor.ops.promotion import promoted_for
from tensor.ops.writing import of_other_dtype
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TensorCore)
Class = TypeVar("Class", bound=type[TensorCore])

# All elementwise ops with one kernel, by name.
OPS: dict[str, UnaryOp | BinaryOp] = {}
# The functions of entries, by name.
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
# The text for the docstring of each op, and the operands and the result of its example.
_EXAMPLES: dict[str, tuple[str, str, str, str]] = {}


# --- Types for type checkers --------------------------------------------------------------------------------
#
# `Callable` has no keyword arguments, so the type is that of an example function.


def _unary(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
    raise NotImplementedError("an example for type checkers")


def _binary(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
    raise NotImplementedError("an example for type checkers")


def _makes(_example: R) -> Callable[[Callable[P, Any]], Callable[P, R]]:
    return lambda maker: maker


# --- Entries ------------------------------------------------------------------------------------------------


@_makes(_unary)
def unary(name: str, kernel: Callable[[Any], Any], result: str, x: str, y: str) -> Any:
    """Return the function `name` of one operand.

    `result` completes "Return ..." in the docstring, and `x` and `y` are the data and the result of its
    example. A ufunc as `kernel` writes to `out` directly. A compiled version of the kernel in
    `tensor.kernels.ufuncs` is tried first.
    """
    compiled = COMPILED.get(kernel)
    run = OPS[name] = UnaryOp(RULES[name], kernel, compiled if isinstance(compiled, UnaryKernel) else None)
    _EXAMPLES[name] = result, x, "", y

    def function(x: Operand, /, *, out: Tensor | None = None) -> Tensor:
        return run(x) if out is None else run_into(name, kernel, (x,), out)

    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, run)
    text = f"Return {result}\n\n{_INTO}"
    _FUNCTIONS[name] = _documented(function, name, text, f"tensor.{name}(tensor.tensor({x}))", y)
    return function


@_makes(_binary)
def binary(name: str, kernel: Callable[[Any, Any], Any], result: str, x1: str, x2: str, y: str) -> Any:
    """Return the function `name` of two operands; the arguments are those of ``unary``."""
    compiled = COMPILED.get(kernel)
    run = OPS[name] = BinaryOp(RULES[name], kernel, compiled if isinstance(compiled, BinaryKernel) else None)
    _EXAMPLES[name] = result, x1, x2, y

    def function(x1: Operand, x2: Operand, /, *, out: Tensor | None = None) -> Tensor:
        return run(x1, x2) if out is None else run_into(name, kernel, (x1, x2), out)

    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, run)
    text = f"Return {result}\n\nShapes broadcast; `tensor.result_type` names the dtype. {_INTO}"
    _FUNCTIONS[name] = _documented(function, name, text, f"tensor.{name}(tensor.tensor({x1}), {x2})", y)
    return function


def unary_in_place(name: str, kernel: Callable[[Array], Any] | None = None) -> Callable[[T], T]:
    """Return the in-place method of the entry `name`. It calls `kernel` if given, else the entry's kernel."""
    result, x, _, y = _EXAMPLES[name]
    text = f"Set each element `x` to {result}"
    return _documented(
        _write_unary(name, kernel or OPS[name].kernel), f"{name}_", text, f"tensor.tensor({x}).{name}_()", y
    )


def binary_in_place(
    name: str, kernel: Callable[[Array, Any], Any] | None = None
) -> Callable[[T, Operand], T]:
    """Return the in-place method of the entry `name`. It calls `kernel` if given, else the entry's kernel."""
    result, x1, x2, y = _EXAMPLES[name]
    return _documented(
        _write_binary(name, kernel or OPS[name].kernel),
        f"{name}_",
        f"Set each element `x1` to {result}\n\nThe result must fit the shape and dtype of the tensor.",
        f"tensor.tensor({x1}).{name}_({x2})",
        y,
    )


def with_entries(names: str, *, in_place: str) -> Callable[[Class], Class]:
    """Return a decorator that adds entries to a class as methods.

    Parameters
    ----------
    names
        The names of entries, each as ``"exp"``, or as ``"neg=negative"`` for a method with another name.
    in_place
        The same for entries that get an in-place method too. Two names of one entry share it.
    """

    def add(owner: Class) -> Class:
        made: dict[str, Any] = {}
        for given in f"{names} {in_place}".split():
            name, _, entry = given.rpartition("=")
            setattr(owner, name or entry, _FUNCTIONS[entry])
        for given in in_place.split():
            name, _, entry = given.rpartition("=")
            if entry not in made:
                make = unary_in_place if isinstance(OPS[entry], UnaryOp) else binary_in_place
                made[entry] = make(entry)
            setattr(owner, f"{name or entry}_", made[entry])
        return owner

    return add


def augmented(name: str, kernel: Callable[[Array, Any], Any] | None = None) -> Callable[[T, Operand], T]:
    """Return the augmented assignment, such as ``+=``, of the entry `name`."""
    return _write_binary(name, kernel or OPS[name].kernel, is_operator=True)


_INTO = "With `out`, write the result to that tensor of the same shape. No gradient can be recorded then."


def _documented(function: Callable[..., Any], name: str, text: str, call: str, y: str) -> Callable[..., Any]:
    function.__name__ = function.__qualname__ = name
    function.__module__ = "tensor.ops.elementwise"  # where pickle and doctest look for it
    function.__doc__ = f"{text}\n\nExamples\n--------\n>>> import tensor\n>>> {call}.tolist()\n{y}\n"
    return function


# --- In place -----------------------------------------------------------------------------------------------


def _write_unary(name: str, kernel: Callable[..., Any]) -> Callable[[Any], Any]:
    rule = RULES[name]

    def overwrite_with(array: Array) -> None:
        (given,) = promoted_for(kernel, (array,))
        if given is not array:
            raise of_other_dtype(name, given.dtype, array)
        try:
            compute_into(kernel, (array,), array)
        except (TypeError, ValueError) as error:
            raise _misfit(name, error, array) from None

    def copy(array: Array) -> None:
        out = in_float32(kernel, *promoted_for(kernel, (array,)))
        if not fits(out.dtype, array.dtype):
            raise of_other_dtype(name, out.dtype, array)
        array[...] = out

    write = overwrite_with if isinstance(kernel, np.ufunc) else copy

    def method(x: TensorCore, /) -> TensorCore:
        if x._array is None:
            x._raise_disposed()
        if x._node is None:
            write_plainly(x, write)
            return x
        return overwrite(rule, x, write, (x,))

    return method


def _write_binary(
    name: str, kernel: Callable[[Array, Any], Any], *, is_operator: bool = False
) -> Callable[[Any, Any], Any]:
    """Return a method that writes the result to its first operand.

    A `kernel` that is not a ufunc gets the first operand as an array, and writes to it.
    """
    rule = RULES[name]

    def method(x1: TensorCore, x2: Any, /) -> Any:
        if isinstance(x2, TensorCore):
            node = x2._node
            if x2._array is None:
                x2._raise_disposed()
        else:
            node = None
            if operand(x2) is NotImplemented:
                if is_operator:
                    return NotImplemented
                raise foreign(f"{name}_", x2)
        if x1._array is None:
            x1._raise_disposed()

        # A closure would keep `x2` alive in a stored error.
        write = partial(_write, name, kernel, x2)
        if x1._node is None and node is None:
            write_plainly(x1, write)
            return x1
        return overwrite(rule, x1, write, (x1, x2))

    return method


def _write(name: str, kernel: Callable[[Array, Any], Any], x2: Any, array: Array) -> None:
    # Read the array of `x2` now: the write first copies shared memory, and that can replace the array.
    first, given = promoted_for(OPS[name].kernel, (array, operand(x2)))
    if first is not array:
        raise of_other_dtype(name, first.dtype, array)
    try:
        if isinstance(kernel, np.ufunc):
            compute_into(kernel, (array, given), array)
        else:
            write_wide(kernel, array, given)
    except (TypeError, ValueError, OverflowError) as error:
        raise _misfit(name, error, array, given) from None


def _misfit(name: str, error: Exception, array: Array, *others: Any) -> Exception:
    """Return the error to raise if NumPy can't write the result of `name` to `array`."""
    if "non-broadcastable output" in str(error):
        return InvalidArgumentError(
            f"{name}_: the result has a larger shape than the tensor's {array.shape}: a write in place can't "
            f"grow it. Write x = x.{name}(...) instead"
        )
    # NumPy's error for a result that can't be cast has the dtype in `from_`.
    found = getattr(error, "from_", None)
    if found is not None:
        return of_other_dtype(name, found, array)
    return explain(f"{name}_", error, (array, *others))
