"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scopes._shared.naming import set_module
from tensor import Tensor, erf, erfinv
from tensor.torch.distributions.distribution import Distribution, broadcast_parameters

_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


@set_module("tensor.torch.distributions")
class Normal(Distribution):
    """Normal distribution with mean `loc` and standard deviation `scale`.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> normal = torch.distributions.Normal(0.0, 1.0)
    >>> round(normal.log_prob(torch.tensor(0.0)).item(), 4), round(normal.entropy().item(), 4)
    (-0.9189, 1.4189)
    """

    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc: Tensor
        self.scale: Tensor
        self.loc, self.scale = broadcast_parameters(loc, scale)
        super().__init__(self.loc.shape, validate_args)
        self._require("scale", self.scale > 0, "above 0")

    @property
    def mean(self) -> Tensor:
        """The mean, `loc`."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation, `scale`."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.square()

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return ``loc + scale * noise``."""
        noise = self.loc.new_empty(self._shape_of(sample_shape)).normal_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`."""
        return -((value - self.loc).square() / (2 * self.variance)) - self.scale.log() - _HALF_LOG_2_PI

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return 0.5 + _HALF_LOG_2_PI + self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the cumulative distribution function at `value`."""
        return 0.5 * (1 + erf((value - self.loc) / (self.scale * math.sqrt(2))))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the inverse cumulative distribution function at `value`."""
        return self.loc + self.scale * erfinv(2 * value - 1) * math.sqrt(2)

    def __repr__(self) -> str:
        return f"Normal(loc: {self.loc}, scale: {self.scale})"
