"""The uniform distribution."""

from __future__ import annotations

from collections.abc import Sequence

from scopes._shared.naming import set_module
from tensor import Tensor, logical_and
from tensor.torch.distributions.distribution import Distribution, broadcast_parameters


@set_module("tensor.torch.distributions")
class Uniform(Distribution):
    """Uniform distribution from `low` to `high`, exclusive.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> even = torch.distributions.Uniform(0.0, 2.0)
    >>> round(even.log_prob(torch.tensor(1.0)).item(), 4), even.mean.item()
    (-0.6931, 1.0)
    """

    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self.low: Tensor
        self.high: Tensor
        self.low, self.high = broadcast_parameters(low, high)
        super().__init__(self.low.shape, validate_args)
        self._require("low", self.low < self.high, "below high")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self.high + self.low) / 2

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return ``low + (high - low) * noise`` with uniform noise."""
        noise = self.low.new_empty(self._shape_of(sample_shape)).uniform_()
        return self.low + noise * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`; -inf outside, or an error with validation."""
        inside = logical_and(self.low <= value, value < self.high)
        self._require("value", logical_and(self.low <= value, value <= self.high), "between low and high")
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return (self.high - self.low).log()

    def __repr__(self) -> str:
        return f"Uniform(low: {self.low}, high: {self.high})"
