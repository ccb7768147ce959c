"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scopes._shared.naming import set_module
from tensor import InvalidArgumentError, Tensor, linalg
from tensor.torch.distributions.distribution import Distribution


@set_module("tensor.torch.distributions")
class MultivariateNormal(Distribution):
    """Multivariate normal distribution with mean `loc`, ``(*, n)``, and covariance ``(*, n, n)``.

    Parameters
    ----------
    covariance_matrix
        The covariance.
    precision_matrix
        The inverse of the covariance.
    scale_tril
        The Cholesky factor of the covariance, a lower triangular matrix.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> normal = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    >>> round(normal.log_prob(torch.zeros(2)).item(), 4), normal.sample((3,)).shape
    (-1.8379, (3, 2))
    """

    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [x for x in (covariance_matrix, precision_matrix, scale_tril) if x is not None]
        if len(given) != 1:
            raise InvalidArgumentError(
                "MultivariateNormal takes one of covariance_matrix, precision_matrix and scale_tril, not "
                f"{len(given)}"
            )
        if loc.ndim == 0 or given[0].ndim < 2:
            raise InvalidArgumentError(
                "MultivariateNormal: loc must have at least one dimension, and the matrix two, not "
                f"{loc.ndim} and {given[0].ndim}"
            )
        if precision_matrix is not None:
            covariance_matrix = linalg.inv(precision_matrix)
        factor = scale_tril if covariance_matrix is None else linalg.cholesky(covariance_matrix)
        if factor is None:
            raise InvalidArgumentError("MultivariateNormal needs a matrix")
        self.loc: Tensor = loc + factor[..., 0] * 0  # broadcast with the batch of the matrix
        super().__init__(self.loc.shape[:-1], validate_args)
        self.event_shape = self.loc.shape[-1:]
        self.scale_tril: Tensor = factor.expand(*self.batch_shape, *factor.shape[-2:])

    @property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.scale_tril @ self.scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return linalg.inv(self.covariance_matrix)

    @property
    def mean(self) -> Tensor:
        """The mean, `loc`."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        return self.scale_tril.square().sum(-1)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return ``loc + scale_tril @ noise``, with standard normal noise."""
        shape = (*self._shape_of(sample_shape), *self.event_shape)
        noise = self.loc.new_empty(shape).normal_()
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at `value`, shape ``(*, n)``."""
        distance = (value - self.loc).unsqueeze(-1)
        scaled = (linalg.inv(self.scale_tril) @ distance).squeeze(-1)
        size = self.event_shape[0]
        return -0.5 * (size * math.log(2 * math.pi) + scaled.square().sum(-1)) - self._half_log_det()

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return 0.5 * self.event_shape[0] * (1 + math.log(2 * math.pi)) + self._half_log_det()

    def _half_log_det(self) -> Tensor:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def __repr__(self) -> str:
        return f"MultivariateNormal(loc: {self.loc}, covariance_matrix: {self.covariance_matrix})"
