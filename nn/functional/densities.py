"""Losses between distributions: divergences and negative log-likelihoods."""

from __future__ import annotations

import math

import tensor as tn
from nn.functional.checks import floating_array_of, floating_target, pair_of, reduce_losses
from nn.functional.distances import at_least
from tensor import Tensor
from tensor._errors import shown
from tensor.core.tensor import TensorCore, composite, widening


@composite
def kl_div(input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Return the Kullback-Leibler divergence of the target's distribution from the input's.

    Parameters
    ----------
    input
        Logarithms of probabilities, any shape.
    target
        Probabilities in the same shape.
    reduction
        ``"mean"`` over all elements, ``"batchmean"`` (the sum divided by the batch size, as the
        divergence is defined), ``"sum"`` or ``"none"``.
    log_target
        Whether `target` has logarithms of probabilities too.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> halves, target = tensor.tensor([[0.5, 0.5]]).log(), tensor.tensor([[0.0, 1.0]])
    >>> round(nn.functional.kl_div(halves, target, reduction="batchmean").item(), 4)
    0.6931
    """
    x, _ = pair_of("kl_div", input, target, reduction, "batchmean")
    target = floating_target(input, target)
    if log_target:
        losses = target.exp() * (target - input)
    else:
        # Define 0 log 0 as 0.
        losses = target * (tn.where(target == 0, 1.0, target).log() - input)
        losses = tn.where(target == 0, -target * input, losses)
    if reduction == "batchmean":
        return losses.sum() / (x.shape[0] if x.ndim else 1)
    return reduce_losses(losses, reduction)


@composite
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of the counts `target` under Poisson distributions.

    Parameters
    ----------
    input
        The means of the distribution, or their logarithms, any shape.
    target
        Counts in the same shape.
    log_input
        Whether `input` has the logarithms of the means.
    full
        Add the term that depends only on the target: Stirling's approximation of log(target!), for counts
        above 1.
    eps
        Added to each mean before its logarithm is computed, if `log_input` is false.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.poisson_nll_loss(tensor.tensor([0.0]), tensor.tensor([3.0])).item()
    1.0
    """
    pair_of("poisson_nll_loss", input, target, reduction)
    target = floating_target(input, target)
    losses = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        counts = tn.where(target > 1, target, 1.0)
        stirling = counts * counts.log() - counts + 0.5 * (2 * math.pi * counts).log()
        losses = losses + tn.where(target > 1, stirling, 0.0)
    return reduce_losses(losses, reduction)


@widening
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Return the negative log-likelihood of `target` with Gaussians of mean `input` and variance `var`.

    Parameters
    ----------
    input
        The means, any shape.
    target
        The samples, in the same shape, or in a shape that broadcasts to it.
    var
        Variances: a number or a tensor. The tensor has the input's shape, the input's shape without its last
        dimension, or the input's shape with one size replaced by 1.
    full
        Add the constant log(2 pi) / 2.
    eps
        The lower bound of the variances. Smaller ones get gradients too.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Raises
    ------
    ValueError
        If shapes do not fit, or a variance is negative.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.functional.gaussian_nll_loss(tensor.tensor([0.0]), tensor.tensor([2.0]), 1.0).item()
    2.0
    """
    name = "gaussian_nll_loss"
    x, _ = pair_of(name, input, target, reduction, can_broadcast=True)
    target = floating_target(input, target)
    if not isinstance(var, TensorCore):
        if not isinstance(var, (int, float)):
            raise TypeError(f"{name}: var must be a tensor or a number, not {type(var).__name__}")
        var = tn.full((), var, dtype=input.dtype)
    else:
        shape = var.shape
        if shape == x.shape[:-1] != x.shape:
            var = var[..., None]
        elif shape != x.shape and not _has_one_dimension_of_1(shape, x.shape):
            raise ValueError(
                f"{name}: var must have the input's shape, {x.shape}, not {shape}. Its last dimension may be "
                "missing, or one of its sizes may be 1"
            )
    variances = floating_array_of(name, "var", var)
    if (variances < 0).any():
        raise ValueError(
            f"{name}: variances must be at least 0, but var holds {shown(variances.min().item())}"
        )
    spread = at_least(var, eps)
    losses = 0.5 * (spread.log() + (input - target) ** 2 / spread)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduce_losses(losses, reduction)


def _has_one_dimension_of_1(shape: tuple[int, ...], full: tuple[int, ...]) -> bool:
    differing = [a for a, b in zip(shape, full, strict=False) if a != b]
    return len(shape) == len(full) and differing == [1]
