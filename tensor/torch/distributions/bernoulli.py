"""The Bernoulli distribution."""

from __future__ import annotations

from collections.abc import Sequence

from scopes._shared.naming import set_module
from tensor import Tensor, logical_and, logical_or, no_grad, sigmoid, softplus
from tensor.torch.distributions.distribution import Distribution, broadcast_parameters


@set_module("tensor.torch.distributions")
class Bernoulli(Distribution):
    """Bernoulli distribution: 1 with probability `probs` or ``sigmoid(logits)``, else 0.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> coin = torch.distributions.Bernoulli(probs=torch.tensor([0.5, 1.0]))
    >>> coin.sample((3,)).shape, round(coin.entropy()[0].item(), 4)
    ((3, 2), 0.6931)
    """

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Bernoulli takes either probs= or logits=")
        (given,) = broadcast_parameters(logits if probs is None else probs)
        super().__init__(given.shape, validate_args)
        self.logits: Tensor
        self.probs: Tensor
        if probs is None:
            self.logits, self.probs = given, sigmoid(given)
        else:
            self._require("probs", logical_and(given >= 0, given <= 1), "from 0 to 1")
            self.probs, self.logits = given, _clamped(given).logit()

    @property
    def mean(self) -> Tensor:
        """The mean, `probs`."""
        return self.probs

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return a sample, or samples of shape `sample_shape`."""
        with no_grad():
            return self.probs.detach().expand(self._shape_of(sample_shape)).bernoulli()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of `value`, 0 or 1."""
        self._require("value", logical_or(value == 0, value == 1), "0 or 1")
        return value * self.logits - softplus(self.logits)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return softplus(self.logits) - self.probs * self.logits

    def __repr__(self) -> str:
        return f"Bernoulli(probs: {self.probs})"


def _clamped(probs: Tensor) -> Tensor:
    """Clamp probabilities, so that their logits are finite."""
    eps = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}[probs.itemsize]
    return probs.clamp(eps, 1 - eps)
