"""Writes of an op's result to its first operand, which keeps its shape and dtype."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tensor._dtypes import Array, fits, is_bfloat16
from tensor._errors import InvalidArgumentError
from tensor.core.promotion import in_float32, promoted_for, write_wide
from tensor.core.tensor import TensorCore
from tensor.kernels.ufuncs import compute_into
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import BinaryOp, UnaryOp, operand, overwrite, write_plainly
from tensor.ops.messages import explain, foreign
from tensor.ops.writing import of_other_dtype
from tensor.tape.modes import enable_grad
from tensor.tape.recording import Leaf
from tensor.tape.tensor_hooks import keep_retaining

if TYPE_CHECKING:
    from tensor._tensor import Tensor

T = TypeVar("T", bound=TensorCore)


# --- Ops with one kernel ------------------------------------------------------------------------------------


def write_unary(op: UnaryOp, x: T, kernel: Callable[[Array], Any] | None = None) -> T:
    """Write the result of `op` to `x`, and return `x`. Call `kernel` if given, else the kernel of `op`."""
    if x._array is None:
        x._raise_disposed()
    write = partial(_write, op, op.kernel if kernel is None else kernel)
    if x._node is None:
        write_plainly(op.rule, x, write)
    else:
        overwrite(op.rule, x, write, (x,))
    return x


def write_binary(op: BinaryOp, x1: T, x2: object, kernel: Callable[[Array, Any], Any] | None = None) -> T:
    """Write the result of `op` to `x1`, and return `x1`. Call `kernel` if given, else the kernel of `op`.

    A `kernel` that is not a ufunc gets the first operand as an array, and writes to it.
    """
    if isinstance(x2, TensorCore):
        node = x2._node
        if x2._array is None:
            x2._raise_disposed()
    else:
        node = None
        if operand(x2) is NotImplemented:
            raise foreign(f"{op.rule.name}_", x2)
    if x1._array is None:
        x1._raise_disposed()

    # A closure would keep `x2` alive in a stored error.
    write = partial(_write_result, op, op.kernel if kernel is None else kernel, x2)
    if x1._node is None and node is None:
        write_plainly(op.rule, x1, write)
    else:
        overwrite(op.rule, x1, write, (x1, x2))
    return x1


def augment(op: BinaryOp, x1: T, x2: object, kernel: Callable[[Array, Any], Any] | None = None) -> T:
    """Do the same for an augmented assignment, such as ``+=``. Python then tries the operator of `x2`."""
    if not isinstance(x2, TensorCore) and operand(x2) is NotImplemented:
        return NotImplemented  # type: ignore[no-any-return]
    return write_binary(op, x1, x2, kernel)


def _write(op: UnaryOp, kernel: Callable[[Array], Any], array: Array) -> None:
    (given,) = promoted_for(kernel, (array,))
    if not isinstance(kernel, np.ufunc):
        out = in_float32(kernel, given)
        if not fits(out.dtype, array.dtype):
            raise of_other_dtype(op.rule.name, out.dtype, array)
        array[...] = out
        return
    if given is not array:
        raise of_other_dtype(op.rule.name, given.dtype, array)
    try:
        compute_into(kernel, (array,), array)
    except (TypeError, ValueError) as error:
        raise _misfit(op.rule.name, error, array) from None


def _write_result(op: BinaryOp, kernel: Callable[[Array, Any], Any], x2: Any, array: Array) -> None:
    # Read the array of `x2` now: the write first copies shared memory, and that can replace the array.
    first, given = promoted_for(op.kernel, (array, operand(x2)))
    if is_bfloat16(array.dtype):
        given = op.as_bfloat16(given, True)
    if first is not array:
        raise of_other_dtype(op.rule.name, first.dtype, array)
    try:
        if isinstance(kernel, np.ufunc):
            compute_into(kernel, (array, given), array)
        else:
            write_wide(kernel, array, given)
    except (TypeError, ValueError, OverflowError) as error:
        raise _misfit(op.rule.name, error, array, given) from None


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


# --- Methods that return views ------------------------------------------------------------------------------


def become_view(name: str, x: T, make: Callable[[Tensor], Tensor]) -> T:
    """Give `x` the shape of its view ``make(x)``, without moving elements, and return `x`."""
    if isinstance(x._node, Leaf):
        raise RuntimeError(
            f"{name}_: a leaf that requires grad keeps its shape, which its gradient has too. Write "
            f"x = x.{name}(...) instead"
        )
    with enable_grad():  # the history has the new shape under no_grad() too
        view = make(as_tensor(x))
    if view is x:
        return x
    if view._node is not None:
        keep_retaining(x, view._node)
    x._set_layout_of(view)
    view.dispose()
    return x
