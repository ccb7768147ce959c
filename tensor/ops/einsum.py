"""Einstein summation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tensor._errors import InvalidArgumentError
from tensor.core.promotion import in_float32, promoted
from tensor.core.tensor import wrap
from tensor.kernels.running import run_kernel
from tensor.ops.data import as_tensor
from tensor.ops.dispatch import as_array
from tensor.ops.messages import Operand, explain
from tensor.tape.recording import record, wrap_recorded
from tensor.tape.rules.linalg import LETTERS, einsum_of, is_reordered

if TYPE_CHECKING:
    from tensor._tensor import Tensor


def einsum(equation: str, *operands: Operand) -> Tensor:
    """Return the sum of products that `equation` describes, with a letter for each dimension.

    Dimensions with the same letter are multiplied elementwise. Letters that are not after ``->`` are summed.
    Without ``->``, the result has the letters that occur once, in alphabetical order. ``...`` means
    dimensions that broadcast.

    Parameters
    ----------
    equation
        ``"ij,jk->ik"`` is the product of two matrices, ``"ii->i"`` a diagonal, ``"bij->b"`` a sum.
    operands
        One tensor for each part of `equation`.

    Raises
    ------
    ValueError
        If the equation is malformed, or does not fit the number or the shapes of the operands.

    Examples
    --------
    >>> import tensor
    >>> x = tensor.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> tensor.einsum("ij,jk->ik", x, x).tolist()
    [[7.0, 10.0], [15.0, 22.0]]
    >>> tensor.einsum("ii", x).item()
    5.0
    """
    if not isinstance(equation, str):
        raise TypeError(
            f"einsum takes the equation first, a string, not {type(equation).__name__}: "
            "write einsum('ij,jk->ik', a, b)"
        )
    tensors = [as_tensor(x) for x in operands]
    for x in tensors:
        x._raise_if_disposed()
    terms, result = _parse(equation, [x.shape for x in tensors])
    arrays = [x._array for x in tensors]
    try:
        out = as_array(run_kernel(in_float32, _einsum, f"{','.join(terms)}->{result}", *arrays))
    except (TypeError, ValueError) as error:
        raise explain("einsum", error, arrays) from None
    if not any(x._node is not None for x in tensors):
        return wrap(out)
    rule = einsum_of(len(tensors))
    return wrap_recorded(out, record(rule, tensors, out, {"terms": terms, "result": result}))


def _einsum(equation: str, *arrays: Any) -> Any:
    out = np.einsum(equation, *promoted(arrays), optimize=is_reordered(list(arrays)))
    # NumPy returns a view if possible, for example of a diagonal.
    return out if isinstance(out, np.ndarray) and out.base is None else np.array(out)


def _parse(equation: str, shapes: list[tuple[int, ...]]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result. ``...`` is replaced by additional letters."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise InvalidArgumentError(
            f"einsum: {equation!r} has terms for {len(terms)} operands, but {len(shapes)} are given"
        )
    free = [letter for letter in LETTERS if letter not in equation]
    widest = 0
    for i, (term, shape) in enumerate(zip(terms, shapes, strict=True)):
        named = term.replace("...", "", 1)
        if not set(named) <= set(LETTERS):
            raise InvalidArgumentError(
                f"einsum: {term!r} in {equation!r} may have only letters and one '...'"
            )
        extra = len(shape) - len(named)
        if extra < 0 or (extra > 0 and "..." not in term):
            raise InvalidArgumentError(
                f"einsum: {term!r} in {equation!r} has {len(named)} letters, but operand {i} has shape "
                f"{shape}"
            )
        widest = max(widest, extra)
    if widest > len(free):
        raise InvalidArgumentError(f"einsum: {equation!r} has more dimensions than there are letters")
    rest = "".join(free[:widest])
    spelled = []
    for term, shape in zip(terms, shapes, strict=True):
        extra = len(shape) - len(term.replace("...", ""))
        spelled.append(term.replace("...", rest[widest - extra :]))
    if arrow:
        result = right.replace("...", rest, 1)
    else:
        letters = left.replace(",", "").replace("...", "")
        result = rest + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    if len(set(result)) != len(result) or not set(result) <= set("".join(spelled)):
        raise InvalidArgumentError(
            f"einsum: the result {right!r} of {equation!r} may have each letter of the operands once, and no "
            "other"
        )
    return spelled, result
