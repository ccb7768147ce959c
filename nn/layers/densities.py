"""Losses that compare distributions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nn import functional as F
from nn.layers.losses import Loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor


class KLDivLoss(Loss):
    """Kullback-Leibler divergence, from log-probabilities; see ``functional.kl_div``.

    Examples
    --------
    >>> import nn, tensor
    >>> halves, target = tensor.tensor([[0.5, 0.5]]).log(), tensor.tensor([[0.0, 1.0]])
    >>> round(nn.KLDivLoss(reduction="batchmean")(halves, target).item(), 4)
    0.6931
    """

    _more_reductions = ("batchmean",)

    def __init__(
        self,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.kl_div(input, target, log_target=self.log_target, reduction=self.reduction)


class PoissonNLLLoss(Loss):
    """Poisson negative log-likelihood of counts; see ``functional.poisson_nll_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> nn.PoissonNLLLoss()(tensor.tensor([0.0]), tensor.tensor([3.0])).item()
    1.0
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        eps: float = 1e-8,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return F.poisson_nll_loss(
            input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(Loss):
    """Gaussian negative log-likelihood with the input as mean; see ``functional.gaussian_nll_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> x, y = tensor.tensor([0.0]), tensor.tensor([2.0])
    >>> nn.GaussianNLLLoss()(x, y, tensor.tensor([1.0])).item()
    2.0
    """

    def __init__(
        self,
        *,
        full: bool = False,
        eps: float = 1e-6,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Return the loss."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class CTCLoss(Loss):
    """Connectionist temporal classification loss of label sequences; see ``functional.ctc_loss``.

    Examples
    --------
    >>> import nn, tensor
    >>> logs = tensor.full((2, 1, 2), 0.5).log()
    >>> round(nn.CTCLoss()(logs, tensor.tensor([[1]]), [2], [1]).item(), 4)
    0.2877
    """

    def __init__(
        self,
        blank: int = 0,
        reduction: str = "mean",
        zero_infinity: bool = False,
    ) -> None:
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
