"""Functions of ``torch`` composed of other functions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

import tensor as tn
from tensor import InvalidArgumentError, Tensor
from tensor._dtypes import is_floating, is_inexact
from tensor.core.tensor import composite, widening
from tensor.ops.messages import Operand
from tensor.ops.rare.complex_views import view_as_complex, view_as_real
from tensor.torch.calling import options_for_cpu, with_out
from tensor.torch.joining import meshgrid, searchsorted

__all__ = [
    "bucketize",
    "cartesian_prod",
    "cdist",
    "combinations",
    "cumulative_trapezoid",
    "fill",
    "gradient",
    "imag",
    "isin",
    "polar",
    "polygamma",
    "real",
    "repeat_interleave",
    "trapezoid",
    "trapz",
    "tril_indices",
    "triu_indices",
    "unravel_index",
    "view_as_complex",
    "view_as_real",
]


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return the Cartesian product of vectors, one combination in each row.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3])).tolist()
    [[1, 3], [2, 3]]
    """
    if len(tensors) == 1:
        return tensors[0]
    grid = meshgrid(*tensors, indexing="ij")
    return tn.stack([x.reshape(-1) for x in grid], axis=1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Return the combinations of `r` elements of a vector, one in each row.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.combinations(torch.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if input.ndim != 1:
        raise InvalidArgumentError(f"combinations takes a vector, not a tensor of shape {input.shape}")
    if r == 0:
        return input.new_empty((0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(choose(range(input.shape[0]), r)), np.int64).reshape(-1, r)
    return input[tn.from_numpy(places)]


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """Return the `p`-norm distances between each row of `x1` and each row of `x2`.

    `compute_mode` has no effect: distances are computed from the differences.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])).tolist()
    [[5.0]]
    """
    del compute_mode
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise InvalidArgumentError(
            f"cdist takes matrices with rows of equal size, not shapes {x1.shape} and {x2.shape}"
        )
    return tn.linalg.vector_norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), axis=-1, ord=p)


@with_out
def isin(
    elements: Operand, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Return whether each element of `elements` is in `test_elements`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2])).tolist()
    [False, True, False]
    """
    del assume_unique
    return tn.isin(elements, test_elements, invert=invert)  # type: ignore[arg-type]  # numbers too


@with_out
def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Return the index of each element's bucket between sorted `boundaries`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.bucketize(torch.tensor([3, 9]), torch.tensor([1, 3, 5])).tolist()
    [1, 3]
    """
    if boundaries.ndim != 1:
        raise InvalidArgumentError(f"bucketize takes a vector of boundaries, not shape {boundaries.shape}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """Return the integral of `y` along `dim` by the trapezoidal rule, at positions `x` or spacing `dx`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.trapezoid(torch.tensor([0.0, 1.0, 2.0])).item()
    2.0
    """
    return _areas(y, x, dx, dim).sum(dim)


trapz: Final = trapezoid


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """Return the cumulative integral of `y` along `dim` by the trapezoidal rule.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.cumulative_trapezoid(torch.tensor([0.0, 1.0, 2.0])).tolist()
    [0.5, 2.0]
    """
    return _areas(y, x, dx, dim).cumsum(dim)


def _areas(y: Tensor, x: Tensor | None, dx: Any, dim: int) -> Tensor:
    size = y.shape[dim]
    pairs = y.narrow(dim, 0, size - 1) + y.narrow(dim, 1, size - 1) if size else y
    if x is None:
        halves: Tensor = pairs * dx / 2
        return halves
    if x.ndim == 1:
        shape = [1] * y.ndim
        shape[dim] = -1
        return pairs * x.diff().reshape(shape) / 2
    return pairs * x.diff(dim=dim - y.ndim if dim >= 0 else dim) / 2


def tril_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    """Return the row and column indices of a matrix's lower triangle.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    return _triangle("tril_indices", np.tril_indices, row, col, offset, options)


def triu_indices(row: int, col: int, offset: int = 0, **options: Any) -> Tensor:
    """Return the row and column indices of a matrix's upper triangle.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.triu_indices(2, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    return _triangle("triu_indices", np.triu_indices, row, col, offset, options)


def _triangle(name: str, find: Any, row: int, col: int, offset: int, options: dict[str, Any]) -> Tensor:
    if row < 0 or col < 0:
        raise InvalidArgumentError(f"{name}: sizes must be at least 0, not {row} and {col}")
    found: Tensor = tn.from_numpy(np.stack(find(row, offset, col)).astype(np.int64))
    given = options_for_cpu(options)
    return found.to(given["dtype"]) if given.get("dtype") else found


@with_out
@composite
def polar(abs: Tensor, angle: Tensor) -> Tensor:
    """Return a complex tensor with these absolute values and angles.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.polar(torch.ones(1), torch.zeros(1)).tolist()
    [(1+0j)]
    """
    for x in (abs, angle):
        if not isinstance(x, Tensor):
            raise TypeError(f"polar takes tensors, not {type(x).__name__}: write torch.tensor(x)")
    if abs.dtype != angle.dtype or not is_floating(abs.dtype):
        raise TypeError(f"polar takes floating tensors of one dtype, not {abs.dtype} and {angle.dtype}")
    return abs * angle.cos() + abs * angle.sin() * 1j


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Convert flat indices of a tensor of shape `shape` to one index tensor for each dimension.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> [x.tolist() for x in torch.unravel_index(torch.tensor([3]), (2, 2))]
    [[1], [1]]
    """
    sizes = (shape,) if isinstance(shape, int) else tuple([int(n) for n in shape])
    if indices.dtype.kind not in "iu":
        raise TypeError(f"unravel_index takes integers, not {indices.dtype}: convert them with x.long()")
    if any(n < 0 for n in sizes):
        raise InvalidArgumentError(f"unravel_index: sizes must be at least 0, not {sizes}")
    found = []
    rest = indices
    for n in reversed(sizes):
        found.append(rest % n)
        rest = rest // n
    return tuple(reversed(found))


def fill(input: Tensor, value: Operand) -> Tensor:
    """Return a tensor like `input`, filled with `value`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.fill(torch.ones(2), 3).tolist()
    [3.0, 3.0]
    """
    if isinstance(value, Tensor) and value.ndim:
        raise InvalidArgumentError(f"fill takes one value, not a tensor of shape {value.shape}")
    return input.clone().fill_(value)


def repeat_interleave(
    input: Tensor,
    repeats: int | Tensor | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Tensor:
    """Return `input` with each element, or each slice along `dim`, repeated.

    With one tensor alone, that is how often: return each index as often as the vector says.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.repeat_interleave(torch.tensor([2, 0, 1])).tolist()
    [0, 0, 2]
    """
    if repeats is None:
        if input.ndim != 1 or input.dtype.kind not in "iu":
            raise InvalidArgumentError(
                "repeat_interleave of one tensor takes how often each index is repeated, a vector of "
                f"integers, not {input.dtype} of shape {input.shape}: write repeat_interleave(x, repeats)"
            )
        places = tn.arange(input.shape[0], dtype=input.dtype)
        return places.repeat_interleave(input, 0, output_size=output_size)
    return input.repeat_interleave(repeats, dim, output_size=output_size)


def real(input: Tensor) -> Tensor:
    """Return the real part of `input` as a view, or `input` itself if it is real.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.real(torch.tensor([1 + 2j])).tolist()
    [1.0]
    """
    return input.real


def imag(input: Tensor) -> Tensor:
    """Return the imaginary part of a complex tensor as a view.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.imag(torch.tensor([1 + 2j])).tolist()
    [2.0]
    """
    if not input.is_complex():
        raise RuntimeError("imag takes a complex tensor, not a real one: write torch.zeros_like(x)")
    return input.imag


@with_out
def polygamma(n: int, input: Tensor) -> Tensor:
    """Return the `n`-th derivative of digamma.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> f"{torch.polygamma(1, torch.ones(1)).item():.4f}"
    '1.6449'
    """
    return input.polygamma(n)


@widening
def gradient(
    input: Tensor, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimate the gradient of `input` along each `dim` by second-order central differences.

    Parameters
    ----------
    spacing
        The spacing of elements, one for each dimension, or their coordinates, a vector for each.
    edge_order
        1 or 2: the order of the differences at the boundaries.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> torch.gradient(torch.tensor([1.0, 4.0, 9.0]))[0].tolist()
    [3.0, 4.0, 5.0]
    """
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if edge_order not in (1, 2):
        raise InvalidArgumentError(f"gradient: edge_order must be 1 or 2, not {edge_order}")
    places = [i + input.ndim if i < 0 else i for i in dims]
    if len(set(places)) < len(places) or any(not 0 <= i < input.ndim for i in places):
        raise InvalidArgumentError(
            f"gradient: dim must have different dimensions of shape {input.shape}, not {dims}"
        )
    steps = (
        list(spacing)
        if isinstance(spacing, (list, tuple))
        else [1 if spacing is None else spacing] * len(places)
    )
    if len(steps) != len(places):
        raise InvalidArgumentError(
            f"gradient takes one spacing for each of {len(places)} dimensions, not {len(steps)}"
        )
    for i, step in zip(places, steps, strict=True):
        if input.shape[i] <= edge_order:
            raise InvalidArgumentError(
                f"gradient: dimension {i} must have at least {edge_order + 1} elements, not {input.shape[i]}"
            )
        if isinstance(step, Tensor) and step.ndim and step.shape != (input.shape[i],):
            raise InvalidArgumentError(
                f"gradient: spacing of dimension {i} must have shape ({input.shape[i]},), not {step.shape}"
            )
    y = input if is_inexact(input.dtype) else input.to(np.float32)
    return tuple([_slopes(y, i, step, edge_order) for i, step in zip(places, steps, strict=True)])


def _slopes(y: Tensor, dim: int, step: Any, edge_order: int) -> Tensor:
    y = y.movedim(dim, -1)
    size = y.shape[-1]
    is_even = not (isinstance(step, Tensor) and step.ndim)
    h = y.new_ones((size - 1,)) * step if is_even else step.to(y.dtype).diff()
    a, b = h[:-1], h[1:]
    inner = (
        -b / (a * (a + b)) * y[..., :-2] + (b - a) / (a * b) * y[..., 1:-1] + a / (b * (a + b)) * y[..., 2:]
    )
    if edge_order == 1:
        first, last = (y[..., 1] - y[..., 0]) / h[0], (y[..., -1] - y[..., -2]) / h[-1]
    else:
        a, b = h[0], h[1]
        first = (
            -(2 * a + b) / (a * (a + b)) * y[..., 0]
            + (a + b) / (a * b) * y[..., 1]
            - a / (b * (a + b)) * y[..., 2]
        )
        a, b = h[-2], h[-1]
        last = (
            b / (a * (a + b)) * y[..., -3]
            - (a + b) / (a * b) * y[..., -2]
            + (a + 2 * b) / (b * (a + b)) * y[..., -1]
        )
    return tn.concat([first.unsqueeze(-1), inner, last.unsqueeze(-1)], axis=-1).movedim(-1, dim)
