"""Functions of ``torch`` with several input tensors or several results."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from string import ascii_letters
from typing import Any, Final, Literal

import numpy as np

import tensor as tn
from tensor import InvalidArgumentError, Tensor
from tensor.ops.messages import Operand
from tensor.torch.calling import with_out

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_to",
    "cat",
    "column_stack",
    "concat",
    "concatenate",
    "dstack",
    "einsum",
    "hstack",
    "is_nonzero",
    "is_tensor",
    "meshgrid",
    "searchsorted",
    "stack",
    "std_mean",
    "tensordot",
    "vander",
    "var_mean",
    "vstack",
    "where",
]


def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Concatenate `tensors` along `dim`. Empty one-dimensional tensors are ignored.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.cat((torch.tensor([1]), torch.tensor([2, 3]))).tolist()
    [1, 2, 3]
    """
    if not hasattr(tensors, "__iter__"):
        raise TypeError(f"cat takes a list or tuple of tensors, not {type(tensors).__name__}")
    given = list(tensors)
    # Ignore empty vectors: programs start with torch.tensor([]) and append to it.
    some = [x for x in given if getattr(x, "shape", None) != (0,)]
    return tn.concat(some or given, axis=dim if some else 0, out=out)


concat: Final = cat
concatenate: Final = cat


def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Tensor | None = None) -> Tensor:
    """Stack `tensors` of equal shape along a new dimension `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.stack([torch.ones(2), torch.zeros(2)], 1).tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    return tn.stack(tensors, axis=dim, out=out)


def _at_least(rank: int, tensors: tuple[Any, ...]) -> Any:
    given = tensors[0] if len(tensors) == 1 else tensors
    if isinstance(given, (list, tuple)):
        return tuple([_at_least(rank, (x,)) for x in given])
    if not isinstance(given, Tensor):
        raise TypeError(
            f"atleast_{rank}d() takes tensors, not {type(given).__name__}: write torch.tensor(data) first"
        )
    if given.ndim >= rank:
        return given
    if given.ndim == 0:
        return given.reshape((1,) * rank)
    row = given.unsqueeze(0) if given.ndim == 1 else given
    return row if rank == 2 else row.unsqueeze(-1)


def atleast_1d(*tensors: Any) -> Any:
    """Return each tensor with at least one dimension.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.atleast_1d(torch.tensor(1)).shape
    (1,)
    """
    return _at_least(1, tensors)


def atleast_2d(*tensors: Any) -> Any:
    """Return each tensor with at least two dimensions; a vector becomes one row.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.atleast_2d(torch.ones(3)).shape
    (1, 3)
    """
    return _at_least(2, tensors)


def atleast_3d(*tensors: Any) -> Any:
    """Return each tensor with at least three dimensions.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.atleast_3d(torch.ones(2)).shape
    (1, 2, 1)
    """
    return _at_least(3, tensors)


@with_out
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack `tensors` horizontally; vectors become columns.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.column_stack((torch.ones(2), torch.ones(2, 3))).shape
    (2, 4)
    """
    return hstack([x.reshape(-1, 1) if x.ndim < 2 else x for x in tensors])


def block_diag(*tensors: Tensor) -> Tensor:
    """Return a block diagonal matrix of `tensors`; vectors become rows. No tensors give shape (1, 0).

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.block_diag(torch.ones(1, 1), torch.ones(1, 2)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]]
    """
    if not tensors:
        return tn.empty((1, 0))
    blocks = [atleast_2d(x) for x in tensors]
    for x in blocks:
        if x.ndim > 2:
            raise InvalidArgumentError(f"block_diag takes at most two dimensions, not shape {x.shape}")
    dtype = tn.result_type(*blocks)
    columns = [x.shape[1] for x in blocks]
    rows = []
    for i, x in enumerate(blocks):
        left, right = builtins.sum(columns[:i]), builtins.sum(columns[i + 1 :])
        parts = [
            tn.zeros((x.shape[0], left), dtype=dtype),
            x.to(dtype),
            tn.zeros((x.shape[0], right), dtype=dtype),
        ]
        rows.append(tn.concat(parts, axis=1))
    return tn.concat(rows, axis=0)


@with_out
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate `tensors` along the second dimension, or vectors along their only dimension.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.hstack((torch.ones(2, 1), torch.ones(2, 2))).shape
    (2, 3)
    """
    given = [atleast_1d(x) for x in tensors]
    return cat(given, 0 if given and given[0].ndim == 1 else 1)


@with_out
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack `tensors` vertically; vectors become rows.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.vstack((torch.ones(2), torch.ones(3, 2))).shape
    (4, 2)
    """
    return cat([atleast_2d(x) for x in tensors], 0)


@with_out
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenate `tensors` along the third dimension.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.dstack((torch.ones(2, 3), torch.ones(2, 3))).shape
    (2, 3, 2)
    """
    return cat([x if x.ndim > 2 else atleast_2d(x).unsqueeze(-1) for x in tensors], 2)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str = "ij") -> tuple[Tensor, ...]:
    """Return coordinate grids. Tensor i varies along dimension i unless `indexing` is ``"xy"``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> [x.shape for x in torch.meshgrid(torch.ones(2), torch.ones(3), indexing="ij")]
    [(2, 3), (2, 3)]
    """
    given: Any = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    return tuple(tn.meshgrid(*given, indexing=indexing))


@with_out
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Any:
    """Return `input` where `condition` is true, else `other`; with `condition` alone, its nonzero indices.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> x = torch.tensor([1.0, -2.0])
    >>> torch.where(x > 0, x, 0.0).tolist(), torch.where(x > 0)[0].tolist()
    ([1.0, 0.0], [0])
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes the condition alone, or two values with it: where(condition, x, y)")
    return tn.where(condition, input, other)


def einsum(*args: Any) -> Tensor:
    """Return the Einstein summation of operands, with a letter for each dimension.

    The arguments are an equation and the operands, or each operand with a list of numbers from 0 to 51, one
    for each dimension, and ``...``. Such a list for the result may be last.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.einsum("ij,jk->ik", torch.ones(2, 3), torch.ones(3, 1)).tolist()
    [[3.0], [3.0]]
    >>> torch.einsum(torch.ones(2, 3), [..., 0], torch.ones(3), [0], [...]).tolist()
    [3.0, 3.0]
    """
    if args and isinstance(args[0], Tensor):
        return tn.einsum(_equation(args), *args[: len(args) // 2 * 2 : 2])
    equation, *operands = args
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (tuple, list)) else operands
    return tn.einsum(equation, *given)


def _equation(args: tuple[Any, ...]) -> str:
    """Return the equation of operands with lists of numbers."""
    terms = []
    for numbers in [*args[1::2], *(args[-1:] if len(args) % 2 else ())]:
        if not isinstance(numbers, (list, tuple)):
            raise TypeError(
                f"einsum: each operand takes a list of numbers after it, not {type(numbers).__name__}"
            )
        letters = []
        for number in numbers:
            if number is not Ellipsis and not 0 <= number < len(ascii_letters):
                raise InvalidArgumentError(f"einsum: numbers of dimensions are from 0 to 51, not {number}")
            letters.append("..." if number is Ellipsis else ascii_letters[number])
        terms.append("".join(letters))
    return "->".join([",".join(terms[: len(args) // 2]), *terms[len(args) // 2 :]])


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return a Vandermonde matrix: `N` powers of `x` from the highest down, or up if `increasing`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.vander(torch.tensor([1, 2, 3])).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    count = len(x) if N is None else N
    if x.dim() != 1 or count < 0:
        raise InvalidArgumentError(f"vander takes one dimension and N >= 0, not shape {x.shape} and N={N}")
    y = x.to("int64") if x.dtype.kind == "b" else x
    powers = y.unsqueeze(1).expand((len(x), max(count - 1, 0))).cumprod(1)
    powers = tn.concat([tn.ones((len(x), min(count, 1)), dtype=powers.dtype), powers], axis=1)
    return powers if increasing else powers.flip(1)


@with_out
def tensordot(a: Tensor, b: Tensor, dims: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over pairs of dimensions: the last `dims` of `a`, the first of `b`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
    (2, 4)
    """
    return tn.tensordot(a, b, axes=dims)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """Return a view of `input`, broadcast to the shape `size`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.broadcast_to(torch.ones(3), (2, 3)).shape
    (2, 3)
    """
    return tn.broadcast_to(input, tuple(size))


@with_out
def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: Literal["left", "right"] | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Return the indices at which to insert the elements of `input` into `sorted_sequence`.

    Parameters
    ----------
    sorted_sequence
        One dimension; or several, sorted along the last one, with the other sizes equal to those of `input`.
    side
        Insert before (``"left"``) or after (``"right"``, as with `right`) equal elements.
    sorter
        The indices that sort `sorted_sequence`, if it is not sorted.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 9])).tolist()
    [1, 3]
    >>> torch.searchsorted(torch.tensor([[1, 3], [2, 9]]), torch.tensor([[3], [3]])).tolist()
    [[1], [1]]
    """
    if right and side == "left":
        raise InvalidArgumentError(
            "searchsorted: right=True and side='left' contradict each other: pass one of them"
        )
    found = tn.searchsorted(
        sorted_sequence, tn.asarray(input), side=side or ("right" if right else "left"), sorter=sorter
    )
    return found.to(np.int32) if out_int32 else found


def std_mean(input: Tensor, dim: Any = None, *flags: bool, **options: Any) -> tuple[Tensor, Tensor]:
    """Return the standard deviation and the mean over `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> [x.item() for x in torch.std_mean(torch.tensor([1.0, 3.0]), correction=0)]
    [1.0, 2.0]
    """
    return input.std(dim, *flags, **options), _mean_over(input, dim, flags, options)


def var_mean(input: Tensor, dim: Any = None, *flags: bool, **options: Any) -> tuple[Tensor, Tensor]:
    """Return the variance and the mean over `dim`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> [x.item() for x in torch.var_mean(torch.tensor([1.0, 3.0]))]
    [2.0, 2.0]
    """
    return input.var(dim, *flags, **options), _mean_over(input, dim, flags, options)


def _mean_over(input: Tensor, dim: Any, flags: tuple[bool, ...], options: dict[str, Any]) -> Tensor:
    # A bool instead of `dim` is the argument `unbiased`, as in `std` and `var`.
    over = None if isinstance(dim, bool) else dim
    return input.mean(over, flags[1] if len(flags) > 1 else options.get("keepdim", False))


def is_tensor(obj: object) -> bool:
    """Return whether `obj` is a tensor.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.is_tensor(torch.ones(1)), torch.is_tensor(1.0)
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_nonzero(input: Tensor) -> bool:
    """Return whether the single element of `input` is not 0.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.is_nonzero(torch.tensor([0.0]))
    False
    """
    if input.numel() != 1:
        raise InvalidArgumentError(
            f"is_nonzero takes one element, not shape {input.shape}: use any() or all()"
        )
    return bool(input.item())
