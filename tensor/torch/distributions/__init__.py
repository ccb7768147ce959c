"""``torch.distributions``: Bernoulli, Categorical, MultivariateNormal, Normal, Uniform."""

from tensor.torch.distributions.bernoulli import Bernoulli
from tensor.torch.distributions.categorical import Categorical
from tensor.torch.distributions.distribution import Distribution
from tensor.torch.distributions.multivariate_normal import MultivariateNormal
from tensor.torch.distributions.normal import Normal
from tensor.torch.distributions.uniform import Uniform

__all__ = ["Bernoulli", "Categorical", "Distribution", "MultivariateNormal", "Normal", "Uniform"]
