"""Losses that compare distributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY

from nn import functional as F
from nn.layers.losses import Loss, PlainLoss, ReducedLoss
from nn.module.docstrings import example
from nn.module.options import options
from tensor import Tensor


@options
class KLDivLoss(ReducedLoss, function=F.kl_div):
    """Kullback-Leibler divergence, from log-probabilities; see ``functional.kl_div``.

    Examples
    --------
    >>> import nn, tensor
    >>> halves, target = tensor.tensor([[0.5, 0.5]]).log(), tensor.tensor([[0.0, 1.0]])
    >>> round(nn.KLDivLoss(reduction="batchmean")(halves, target).item(), 4)
    0.6931
    """

    log_target: bool = False

    _more_reductions = ("batchmean",)


@options
@example("nn.PoissonNLLLoss()(tensor.tensor([0.0]), tensor.tensor([3.0])).item()", 1.0)
class PoissonNLLLoss(PlainLoss, function=F.poisson_nll_loss):
    """Poisson negative log-likelihood of counts; see ``functional.poisson_nll_loss``."""

    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: str = "mean"


@options
@example("nn.GaussianNLLLoss()(tensor.tensor([0.0]), tensor.tensor([2.0]), 1.0).item()", 2.0)
class GaussianNLLLoss(Loss, function=F.gaussian_nll_loss):
    """Gaussian negative log-likelihood with the input as mean; see ``functional.gaussian_nll_loss``."""

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Return the loss."""
        return self._computed(input, target, var)


@options
class CTCLoss(Loss, function=F.ctc_loss):
    """Connectionist temporal classification loss of label sequences; see ``functional.ctc_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> logs = tensor.full((2, 1, 2), 0.5).log()
    >>> round(nn.CTCLoss()(logs, tensor.tensor([[1]]), [2], [1]).item(), 4)
    0.2877
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        """Return the loss."""
        return self._computed(log_probs, targets, input_lengths, target_lengths)
