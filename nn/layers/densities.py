"""Losses that compare distributions."""

from __future__ import annotations

from collections.abc import Sequence

from nn import functional as F
from nn.layers.losses import Loss
from scopes._shared.naming import set_module
from tensor import Tensor


@set_module("nn")
class KLDivLoss(Loss):
    """Kullback-Leibler divergence, from log-probabilities; see ``functional.kl_div``.

    Parameters
    ----------
    reduction
        ``"mean"`` over all elements, ``"batchmean"`` (the sum divided by the batch size, as the
        divergence is defined), ``"sum"`` or ``"none"``.
    log_target
        Whether `target` has logarithms of probabilities too.

    Examples
    --------
    >>> import nn, tensor
    >>> halves, target = tensor.tensor([[0.5, 0.5]]).log(), tensor.tensor([[0.0, 1.0]])
    >>> round(nn.KLDivLoss(reduction="batchmean")(halves, target).item(), 4)
    0.6931
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction, "batchmean")
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.kl_div(input, target, self.reduction, self.log_target)


@set_module("nn")
class PoissonNLLLoss(Loss):
    """Poisson negative log-likelihood of counts; see ``functional.poisson_nll_loss``.

    Parameters
    ----------
    log_input
        Whether `input` has the logarithms of the means.
    full
        Add the term that depends only on the target: Stirling's approximation of log(target!), for counts
        above 1.
    eps
        Added to each mean before its logarithm is computed, if `log_input` is false.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.PoissonNLLLoss()(tensor.tensor([0.0]), tensor.tensor([3.0])).item()
    1.0
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.poisson_nll_loss(input, target, self.log_input, self.full, self.eps, self.reduction)


@set_module("nn")
class GaussianNLLLoss(Loss):
    """Gaussian negative log-likelihood with the input as mean; see ``functional.gaussian_nll_loss``.

    Parameters
    ----------
    full
        Add the constant log(2 pi) / 2.
    eps
        The lower bound of the variances. Smaller ones get gradients too.
    reduction
        ``"mean"``, ``"sum"`` or ``"none"``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.GaussianNLLLoss()(tensor.tensor([0.0]), tensor.tensor([2.0]), 1.0).item()
    2.0
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Return the loss."""
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


@set_module("nn")
class CTCLoss(Loss):
    """Connectionist temporal classification loss of label sequences; see ``functional.ctc_loss``.

    Parameters
    ----------
    blank
        The class index of the blank.
    reduction
        ``"mean"`` of the losses, each divided by the length of its target, ``"sum"`` or ``"none"``.
    zero_infinity
        Replace the infinite losses of targets that are too long for their input, and their gradients, by 0.

    Examples
    --------
    >>> import nn, tensor
    >>> logs = tensor.full((2, 1, 2), 0.5).log()
    >>> round(nn.CTCLoss()(logs, tensor.tensor([[1]]), [2], [1]).item(), 4)
    0.2877
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self,
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Tensor | Sequence[int],
        target_lengths: Tensor | Sequence[int],
    ) -> Tensor:
        """Return the loss."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
