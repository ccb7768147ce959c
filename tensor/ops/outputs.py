"""Write results to a given tensor: ``out=``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._dtypes import Array, fits, float32, is_bfloat16
from tensor._errors import InvalidArgumentError
from tensor.core.promotion import in_float32, promoted_for
from tensor.core.tensor import TensorCore, snapshot, writing
from tensor.kernels.products import matrix_product
from tensor.kernels.running import run_kernel
from tensor.kernels.ufuncs import compute_into
from tensor.ops.data import as_data
from tensor.ops.dispatch import BinaryOp, UnaryOp, as_array, operand
from tensor.ops.messages import explain, foreign
from tensor.tape.modes import is_recording
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def run_into(name: str, kernel: Callable[..., Any], operands: Sequence[Any], out: Tensor) -> Tensor:
    """Write the result of `kernel` for `operands` to `out`, and return `out`.

    A ufunc writes to `out` directly, even if `out` is an operand or overlaps one. Other results are copied.
    """
    for x in operands:
        if operand(x) is NotImplemented:
            raise foreign(name, x)
    require_out(name, operands, out)
    if not isinstance(kernel, np.ufunc):
        return _put(name, _run(name, kernel, operands), out)
    try:
        shapes = [getattr(operand(x), "shape", ()) for x in operands]
        shape = shape_of_product(*shapes) if kernel is np.matmul else np.broadcast_shapes(*shapes)
    except ValueError as error:
        raise explain(name, error, [operand(x) for x in operands]) from None
    _require_shape(name, shape, out)
    if kernel is np.matmul and 0 in shape:  # NumPy is slow for many matrices without elements
        return _put(name, _run(name, matrix_product, operands), out)
    with writing(out) as target:
        # Read the operands now: the write first copies shared memory, and that can replace their arrays.
        arrays = _promoted(kernel, operands)
        try:
            run_kernel(compute_into, kernel, arrays, target)
        except (TypeError, ValueError, OverflowError) as error:
            if isinstance(found := getattr(error, "from_", None), np.dtype):
                raise _of_other_dtype(name, found, target.dtype) from None
            raise explain(name, error, arrays) from None
    return out


def run_op_into(op: UnaryOp | BinaryOp, operands: Sequence[Any], out: Tensor) -> Tensor:
    """Do the same for the kernel of `op`."""
    if isinstance(op, BinaryOp) and any(is_bfloat16(getattr(operand(x), "dtype", float32)) for x in operands):
        operands = [
            x if isinstance(x, TensorCore) else op.as_bfloat16(x, place == 1)
            for place, x in enumerate(operands)
        ]
    return run_into(op.rule.name, op.kernel, operands, out)


def copy_out(name: str, operands: Sequence[Any], result: Tensor, out: Tensor) -> Tensor:
    """Write the `result` of an op on `operands` to `out`, dispose `result`, and return `out`."""
    try:
        require_out(name, operands, out)
        return _put(name, snapshot(result), out)
    finally:
        result.dispose()


def _put(name: str, result: Array, out: Tensor) -> Tensor:
    """Write `result` to `out`, and return `out`."""
    _require_shape(name, result.shape, out)
    if not fits(result.dtype, out.dtype):
        raise _of_other_dtype(name, result.dtype, out.dtype)
    with writing(out) as target:
        run_kernel(np.copyto, target, result, casting="unsafe")
    return out


def require_out(name: str, operands: Sequence[Any], out: object) -> None:
    """Raise an error unless an op on `operands` may write to `out`."""
    if not isinstance(out, TensorCore):
        raise TypeError(
            f"{name}: out= takes a tensor, not {type(out).__name__}: write out=tensor.empty(shape), or "
            "remove out="
        )
    out._raise_if_disposed()
    recorded = (*operands, out) if RULES[name].is_differentiable else (out,)
    if is_recording() and any(getattr(x, "_node", None) is not None for x in recorded):
        raise RuntimeError(
            f"{name}: out= keeps no gradient history, but one of the tensors requires grad: remove out=, "
            "or write inside `with tensor.no_grad():`"
        )


def _run(name: str, kernel: Callable[..., Any], operands: Sequence[Any]) -> Array:
    arrays = _promoted(kernel, operands)
    try:
        return as_array(run_kernel(in_float32, kernel, *arrays))
    except (TypeError, ValueError, OverflowError) as error:
        raise explain(name, error, arrays) from None


def _promoted(kernel: Callable[..., Any], operands: Sequence[Any]) -> tuple[Any, ...]:
    first, *others = [operand(x) for x in operands]
    given = (first if isinstance(first, np.ndarray) or others else as_data(first, None), *others)
    return promoted_for(kernel, given)


def shape_of_product(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a product of matrices, vectors or batches; NumPy checks the inner sizes."""
    batch = np.broadcast_shapes(first[:-2], second[:-2])
    return batch + first[-2:-1] + (second[-1:] if len(second) > 1 else ())


def _require_shape(name: str, shape: tuple[int, ...], out: Tensor) -> None:
    if out.shape != shape:
        advice = f"out=tensor.empty({shape}, dtype=...)"
        if out.numel() == prod(shape):
            advice += f", or out=out.view({shape})"
        raise InvalidArgumentError(
            f"{name}: the result has shape {shape}, but out= has {out.shape}: write {advice}"
        )


def _of_other_dtype(name: str, found: Any, wanted: Any) -> TypeError:
    return TypeError(
        f"{name}: the result is {found}, which does not fit out= of {wanted}: pass an out= of {found}, or "
        "remove out= and write result.to(dtype)"
    )
