"""Smooth activations, gates, and Gumbel-softmax samples."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import tensor as tn
from nn.functional.activations import softmax
from nn.functional.checks import floating_array_of
from nn.functional.piecewise_activations import maybe_in_place
from tensor import Generator, Tensor
from tensor._dtypes import Array, DtypeLike
from tensor._errors import InvalidArgumentError, shown
from tensor.core.promotion import with_numbers
from tensor.core.tensor import composite, last_use
from tensor.ops.dispatch import apply_into
from tensor.tape.rules.table import define


def _celu(xp: Any, g: Any, input: Any, alpha: float) -> Any:
    return xp.where(input > 0, g, g * xp.exp(xp.minimum(input, 0) / alpha))


_CELU = define("celu", input=_celu)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return x where positive, ``alpha * (exp(x / alpha) - 1)`` elsewhere (Barron, 2017).

    With `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.celu(tensor.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    floating_array_of("celu", "input", input)
    if not alpha:
        raise InvalidArgumentError("celu: alpha must not be 0, because x is divided by it")

    def kernel(x: Array, out: Array | None) -> Any:
        below = alpha * np.expm1(np.minimum(x, 0) / alpha)
        if out is not x:
            return np.where(x > 0, x, below)
        np.copyto(out, below, where=~(x > 0))
        return out

    def function(x: Tensor) -> Tensor:
        return apply_into(_CELU, partial(with_numbers, kernel), (x,), alpha=alpha)

    return maybe_in_place(function, input, inplace)


# With these constants, SELU preserves mean 0 and variance 1.
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled ELU of self-normalizing networks (Klambauer et al., 2017).

    With `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> round(nn.functional.selu(tensor.tensor([1.0])).item(), 4)
    1.0507
    """
    floating_array_of("selu", "input", input)
    return maybe_in_place(lambda x: tn.elu(x, _SELU_ALPHA) * _SELU_SCALE, input, inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return ``x * tanh(softplus(x))`` (Misra, 2019); with `inplace`, write it to `input`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.mish(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    floating_array_of("mish", "input", input)
    return maybe_in_place(_mish, input, inplace)


@composite
def _mish(x: Tensor) -> Tensor:
    gate = tn.softplus(x).tanh()
    return last_use(x) * gate


@composite
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the first half of `input` along `dim` times the sigmoid of the second (Dauphin et al., 2016).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.glu(tensor.tensor([3.0, 0.0])).tolist()
    [1.5]
    """
    shape = floating_array_of("glu", "input", input).shape
    if not shape or input.size(dim) % 2:
        raise InvalidArgumentError(f"glu: the size of dimension {dim} must be even, but the shape is {shape}")
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def logsigmoid(input: Tensor) -> Tensor:
    """Return log(sigmoid(x)), without overflow.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.logsigmoid(tensor.tensor([-1000.0])).tolist()
    [-1000.0]
    """
    floating_array_of("logsigmoid", "input", input)
    return tn.logsigmoid(input)


@composite
def softsign(input: Tensor) -> Tensor:
    """Return x / (1 + abs(x)).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.softsign(tensor.tensor([-1.0])).tolist()
    [-0.5]
    """
    floating_array_of("softsign", "input", input)
    size = input.abs() + 1
    return last_use(input) / size


@composite
def tanhshrink(input: Tensor) -> Tensor:
    """Return x - tanh(x).

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.tanhshrink(tensor.tensor([0.0])).tolist()
    [0.0]
    """
    floating_array_of("tanhshrink", "input", input)
    bounded = input.tanh()
    return last_use(input) - bounded


def softmin(input: Tensor, dim: int | None = None, *, dtype: DtypeLike | None = None) -> Tensor:
    """Return ``softmax(-x, dim)``, computed in `dtype`.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.softmin(tensor.tensor([0.0, 0.0]), dim=0).tolist()
    [0.5, 0.5]
    """
    floating_array_of("softmin", "input", input)
    return softmax(-(input if dtype is None else input.to(dtype)), dim)


@composite
def gumbel_softmax(
    logits: Tensor,
    tau: float = 1.0,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Return differentiable Gumbel-softmax samples along `dim` (Jang et al., 2016).

    Parameters
    ----------
    logits
        Unnormalized log-probabilities of any shape.
    tau
        The temperature. At lower temperatures, samples are closer to one-hot vectors.
    hard
        Return one-hot samples, with the gradient of the soft samples.
    eps
        No effect, as in PyTorch.
    generator
        The generator of the samples; the default one for None.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.gumbel_softmax(tensor.zeros((2, 3)), hard=True).sum(dim=1).tolist()
    [1.0, 1.0]
    """
    del eps
    shape = floating_array_of("gumbel_softmax", "logits", logits).shape
    if not tau > 0:
        raise InvalidArgumentError(f"gumbel_softmax: tau must be above 0, not {shown(tau)}")
    noise = tn.empty(shape, dtype=logits.dtype).exponential_(generator=generator).log()
    soft = ((logits - noise) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = tn.zeros(shape, dtype=logits.dtype).scatter(dim, soft.detach().argmax(dim, keepdim=True), 1.0)
    return chosen - soft.detach() + soft
