"""Error messages of ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from tensor._dtypes import is_inexact
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import StorageReference, TensorCore
from tensor.tape.recording import Leaf

# The operands of elementwise functions: tensors, arrays, and numbers, which have no dtype of their own.
Operand: TypeAlias = TensorCore | np.ndarray[Any, Any] | np.generic | complex

LEAF_WRITE = (
    "a leaf tensor that requires grad can't be written in place while gradients are recorded: it would no "
    "longer be a leaf, and would get no gradient. Write inside `with tensor.no_grad():`, or to x.clone()"
)
SHARED_WRITE = (
    "this tensor shares memory with a tensor of another dtype: one is a view of the real or imaginary parts "
    "of the other. The history of the other tensor would miss this recorded write. Write to x.clone(), "
    "or inside `with tensor.no_grad():`, or dispose the other tensor first"
)
NO_GRAD_VIEW = (
    "this tensor is a view that was created under no_grad(), so the history of its base would miss this "
    "write. Create the view outside of `with tensor.no_grad():`, or write inside it, or to x.clone()"
)
INTEGER_WRITE = (
    "values that require grad can't be written into a tensor of integers or bools: only floating and complex "
    "tensors carry gradients. Write value.detach(), or convert the tensor first (x.float())"
)


def name_in_place(name: str) -> str:
    """Return the name of the op that writes its result to its operand, for messages."""
    return name if name == "setitem" else f"{name}_"


def require_writable_history(name: str, x: TensorCore, others: Sequence[StorageReference]) -> None:
    """Raise an error if a recorded write to `x` would make a gradient history wrong."""
    if any(isinstance(holder._node, Leaf) for holder in (x, *others)):
        raise RuntimeError(f"{name}: {LEAF_WRITE}")
    dtype = x._live_array().dtype
    if not is_inexact(dtype):
        raise RuntimeError(f"{name}: {INTEGER_WRITE}")
    if any((array := holder._array) is not None and array.dtype != dtype for holder in others):
        raise RuntimeError(f"{name}: {SHARED_WRITE}")


def _fit_transposed(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Return whether matrices of these shapes have a product if one or both are transposed."""
    rows = (second[-1],) if len(second) == 1 else second[-2:]
    return bool({*first[-2:]} & {*rows})


def foreign(name: str, x: object) -> TypeError:
    """Return the error for an operand that is not a tensor, array or number."""
    return TypeError(
        f"{name} takes tensors, arrays and numbers, not {type(x).__name__}: write tensor.tensor(data) first"
    )


def explain(name: str, error: Exception, arrays: Sequence[Any]) -> Exception:
    """Return the error for a failure of the kernel of `name` on `arrays`, with advice."""
    text = str(error)
    shapes = " and ".join(
        f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__ for x in arrays
    )
    if "broadcast" in text:
        return InvalidArgumentError(
            f"{name}: shapes don't fit together: {shapes}. From the last dimension backward, sizes must be "
            "equal or 1; reshape one of them (x.unsqueeze(dim), x.reshape(...), x.mT)"
        )
    if "not have enough dimensions" in text:
        return InvalidArgumentError(
            f"{name} takes vectors and matrices, not numbers: {shapes}. Write x * y to scale"
        )
    if "matmul" in text or "mismatch in its core dimension" in text:
        sizes = [x.shape for x in arrays if isinstance(x, np.ndarray)]
        inner = "size" if len(sizes[-1]) == 1 else "second to last"
        advice = "; transpose a matrix (x.mT)" if _fit_transposed(*sizes[:2]) else ""
        return InvalidArgumentError(
            f"{name}: shapes don't fit together: {shapes}. The last dimension of the first must equal the "
            f"{inner} of the second{advice}"
        )
    if "negative integer powers" in text:
        return InvalidArgumentError(
            f"{name}: integers have no negative integer powers: {shapes}. Convert one of them with x.float()"
        )
    if isinstance(error, OverflowError):
        return OverflowError(f"{name} of {shapes}: {text}. Convert the tensor with x.to(dtype)")
    if isinstance(error, TypeError):
        # NumPy's long text about a ufunc says no more than this one. Errors of kernels have their own advice.
        if text.startswith("ufunc "):
            return TypeError(f"{name} is not defined for {shapes}. Convert with x.to(dtype)")
        return TypeError(f"{name} is not defined for {shapes}: {text}")
    return InvalidArgumentError(f"{name} of {shapes}: {text}")
