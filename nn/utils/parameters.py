"""Clip gradients, and convert parameters to one vector and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

import tensor as tn
from nn.functional.checks import array_of
from nn.module.gradients import gradient_of
from nn.module.module import Module
from nn.module.states import copy_values
from tensor import Tensor
from tensor._dtypes import is_inexact
from tensor.core.tensor import TensorCore, wrap, writing

__all__ = [
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]


def _refuse_module(given: object) -> None:
    if isinstance(given, Module):
        raise TypeError(
            f"tensors are required, not the module {type(given).__name__}: write model.parameters()"
        )


def _gradients_of(parameters: Tensor | Iterable[Tensor]) -> list[TensorCore]:
    _refuse_module(parameters)
    given = [parameters] if isinstance(parameters, TensorCore) else list(parameters)
    found: list[TensorCore] = []
    for x in given:
        x._raise_if_disposed()
        grad = gradient_of(x)
        if grad is not None:
            found.append(grad)
    return found


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients in place so that their total norm is at most `max_norm`.

    Parameters
    ----------
    parameters
        Tensors. Those without a gradient are ignored.
    max_norm
        The maximum of the total norm, which is the norm of all gradients as one vector.
    norm_type
        The degree of the norm; ``float("inf")`` for the largest absolute value.
    error_if_nonfinite
        Raise an error if the norm is infinite or NaN, instead of scaling by it.
    foreach
        No effect: in PyTorch it selects a faster implementation.

    Returns
    -------
    The total norm before clipping, a zero-dimensional tensor.

    Raises
    ------
    RuntimeError
        If the norm is not finite and `error_if_nonfinite` is True. No gradient is changed.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0, 1.0]))
    >>> (x * tensor.tensor([3.0, 4.0])).sum().backward()
    >>> nn.utils.clip_grad_norm_([x], max_norm=1.0).item()
    5.0
    >>> [round(g, 4) for g in x.grad.tolist()]
    [0.6, 0.8]
    """
    del foreach
    grads = _gradients_of(parameters)
    total, norm = _norm_of(grads, norm_type, error_if_nonfinite)
    _scale(grads, max_norm, total)
    return norm


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return a zero-dimensional tensor: the norm of all tensors as one vector.

    Parameters
    ----------
    tensors
        The tensors, usually gradients. Autograd does not record the operation.
    norm_type
        The degree of the norm; ``float("inf")`` for the largest absolute value.
    error_if_nonfinite
        Raise an error if the norm is infinite or NaN.
    foreach
        No effect.

    Raises
    ------
    RuntimeError
        If the norm is not finite and `error_if_nonfinite` is True.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.utils.get_total_norm([tensor.tensor([3.0]), tensor.tensor([[0.0], [4.0]])]).item()
    5.0
    """
    del foreach
    _refuse_module(tensors)
    given = [tensors] if isinstance(tensors, TensorCore) else list(tensors)
    return _norm_of(given, norm_type, error_if_nonfinite)[1]


def _norm_of(
    tensors: Sequence[TensorCore], norm_type: float, error_if_nonfinite: bool
) -> tuple[float, Tensor]:
    """Return the norm as a float, and as a tensor of the first tensor's real dtype (float32 for integers)."""
    arrays = [x._live_array() for x in tensors]
    norm_type = float(norm_type)  # "inf" is an infinite degree, as in PyTorch
    # Squares of float16 values overflow from 256 on.
    wide = (array.astype(np.float32) if array.dtype == np.float16 else array for array in arrays)
    norms = [float(np.linalg.norm(array.ravel(), norm_type)) for array in wide]
    total = float(np.linalg.norm(np.asarray(norms), norm_type)) if norms else 0.0
    if error_if_nonfinite and not math.isfinite(total):
        raise RuntimeError(
            f"the norm is {total}, because a tensor or a gradient holds infinity or NaN: find its origin "
            "with tensor.autograd.detect_anomaly(), or pass error_if_nonfinite=False"
        )
    dtype = arrays[0].dtype if arrays and is_inexact(arrays[0].dtype) else np.dtype(np.float32)
    with np.errstate(over="ignore"):  # a norm too large for float16 becomes inf
        return total, wrap(np.asarray(total, np.zeros(1, dtype).real.dtype))


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients in place by `max_norm` / `total_norm` if that is below 1.

    `get_total_norm` computes the norm, which may include other gradients too. `foreach` has no effect.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0, 1.0]))
    >>> (x * tensor.tensor([3.0, 4.0])).sum().backward()
    >>> nn.utils.clip_grads_with_norm_([x], 1.0, nn.utils.get_total_norm([x.grad]))
    >>> [round(g, 4) for g in x.grad.tolist()]
    [0.6, 0.8]
    """
    del foreach
    _scale(_gradients_of(parameters), max_norm, total_norm.item())


def _scale(grads: list[TensorCore], max_norm: float, total: float) -> None:
    factor = max_norm / (total + 1e-6)
    if not factor >= 1:
        for g in grads:
            with writing(g) as array:
                np.multiply(array, factor, out=array)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp each element of the gradients in place to the range from -`clip_value` to `clip_value`.

    `foreach` has no effect.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.tensor([1.0]))
    >>> (x * 3).sum().backward()
    >>> nn.utils.clip_grad_value_([x], 0.5)
    >>> x.grad.tolist()
    [0.5]
    """
    del foreach
    for g in _gradients_of(parameters):
        with writing(g) as array:
            np.clip(array, -clip_value, clip_value, out=array)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return a copy of all parameters' elements as one vector. The operation is differentiable.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.utils.parameters_to_vector(nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    _refuse_module(parameters)
    parts = [x.reshape(-1) for x in parameters]
    if not parts:
        raise ValueError(
            "parameters_to_vector got no parameters: the iterable is empty, or an exhausted iterator"
        )
    return tn.concat(parts)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of `vec` into the parameters, in order. Autograd does not record the copy.

    Raises
    ------
    ValueError
        If `vec` is not a vector, or the number of elements differs. No parameter is changed.

    Examples
    --------
    >>> import nn, tensor
    >>> layer = nn.Linear(1, 1)
    >>> nn.utils.vector_to_parameters(tensor.tensor([2.0, 3.0]), layer.parameters())
    >>> layer.weight.item(), layer.bias.item()
    (2.0, 3.0)
    """
    _refuse_module(parameters)
    targets = list(parameters)
    source = array_of("vector_to_parameters", "vec", vec)
    sizes = [math.prod(x.shape) for x in targets]
    if source.shape != (sum(sizes),):
        raise ValueError(
            f"vec must have shape ({sum(sizes)},), the number of elements of all parameters, not "
            f"{source.shape}"
        )
    ends = np.cumsum(sizes).tolist()
    pieces = [source[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    copy_values(targets, [piece.reshape(x.shape) for piece, x in zip(pieces, targets, strict=True)])
