"""Distances and similarities of vectors."""

from __future__ import annotations

import numpy as np

import tensor as tn
from nn.functional.checks import array_of, floating_array_of
from tensor import Tensor
from tensor._dtypes import is_floating
from tensor._errors import InvalidArgumentError
from tensor.core.tensor import composite, widening


def at_least(x: Tensor, least: float) -> Tensor:
    """Return `x`, or `least` where `x` is smaller. The gradient is that of `x` everywhere."""
    with tn.no_grad():
        missing = x.clamp(min=least) - x
    return x + missing


@widening
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Return the cosine of the angles between the vectors along `dim`, from -1 to 1.

    Parameters
    ----------
    x1, x2
        Shapes that broadcast to each other.
    dim
        The dimension of the vectors, which is removed.
    eps
        The lower bound of the lengths, to avoid a division by 0.

    Raises
    ------
    ValueError
        If the shapes do not broadcast, or the dimension does not exist.

    Examples
    --------
    >>> import nn, tensor
    >>> x = tensor.tensor([[1.0, 0.0], [1.0, 1.0]])
    >>> y = tensor.tensor([[0.0, 2.0], [3.0, 3.0]])
    >>> [round(c, 4) for c in nn.functional.cosine_similarity(x, y).tolist()]
    [0.0, 1.0]
    """
    arrays = [array_of("cosine_similarity", what, x) for what, x in (("x1", x1), ("x2", x2))]
    dtype = tn.result_type(*[array.dtype for array in arrays])
    if not is_floating(dtype):
        raise TypeError(
            f"cosine_similarity: x1 and x2 must be floating, not {dtype}: convert one with x1.float()"
        )
    x1, x2 = (x if x.dtype == dtype else x.to(dtype) for x in tn.broadcast_tensors(x1, x2))
    lengths = (at_least(x.norm(dim=dim, keepdim=True), eps) for x in (x1, x2))
    units = [x / length for x, length in zip((x1, x2), lengths, strict=True)]
    return (units[0] * units[1]).sum(dim=dim)


@widening
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """Return the norm of ``x1 - x2`` along the last dimension.

    Parameters
    ----------
    x1, x2
        Shapes that broadcast to each other, ``(*, size)``.
    p
        The degree of the norm.
    eps
        The number added to each difference, so that the gradient is finite for equal vectors.
    keepdim
        Return shape ``(*, 1)`` instead of ``(*,)``.

    Raises
    ------
    ValueError
        If the shapes do not broadcast.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([[1.0, 2.0]]), tensor.tensor([[4.0, 6.0]])
    >>> round(nn.functional.pairwise_distance(x, y).item(), 4)
    5.0
    """
    for what, x in (("x1", x1), ("x2", x2)):
        floating_array_of("pairwise_distance", what, x)
    return (x1 - x2 + eps).norm(p, dim=-1, keepdim=keepdim)


@widening
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Return `input` divided by the norms of its vectors along `dim`.

    Parameters
    ----------
    input
        Any shape, floating.
    p
        The degree of the norm.
    dim
        The dimension of the vectors.
    eps
        The lower bound of the norms, to avoid a division by 0.

    Examples
    --------
    >>> import nn, tensor
    >>> [round(v, 4) for v in nn.functional.normalize(tensor.tensor([[3.0, 4.0]]))[0].tolist()]
    [0.6, 0.8]
    """
    floating_array_of("normalize", "input", input)
    return input / input.norm(p, dim=dim, keepdim=True).clamp(min=eps)


@composite
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the distances between all pairs of rows of `input`: ``(0, 1), (0, 2), ..., (1, 2), ...``.

    Parameters
    ----------
    input
        Shape ``(rows, size)``, floating.
    p
        The degree of the norm.

    Returns
    -------
    Shape ``(rows * (rows - 1) / 2,)``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.pdist(tensor.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])).tolist()[:2]
    [5.0, 1.0]
    """
    x = floating_array_of("pdist", "input", input)
    if x.ndim != 2:
        raise InvalidArgumentError(f"pdist: input must have shape (rows, features), not {x.shape}")
    first, second = np.triu_indices(x.shape[0], 1)
    return (input[first] - input[second]).norm(p, dim=1)
