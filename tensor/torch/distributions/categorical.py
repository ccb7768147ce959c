"""The categorical distribution."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from scopes._shared.naming import set_module
from tensor import Tensor, broadcast_shapes, log_softmax, logical_and, no_grad
from tensor.torch.distributions.distribution import Distribution


@set_module("tensor.torch.distributions")
class Categorical(Distribution):
    """Distribution over the indices of the last dimension, with weights `probs` or ``softmax(logits)``.

    Examples
    --------
    >>> import tensor.torch as torch
    >>> choice = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
    >>> choice.probs.tolist(), choice.sample((4,)).shape
    ([0.25, 0.75], (4,))
    >>> round(choice.log_prob(torch.tensor(0)).item(), 4)
    -1.3863
    """

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        given = logits if probs is None else probs
        if given is None or (probs is not None and logits is not None):
            raise ValueError("Categorical takes either probs= or logits=")
        if given.ndim < 1:
            raise ValueError("Categorical takes at least one dimension: a weight for each index")
        super().__init__(given.shape[:-1], validate_args)
        if probs is None:
            self.logits = log_softmax(given, axis=-1)
            self.probs = self.logits.exp()
        else:
            self._require(
                "probs",
                logical_and(given >= 0, given.sum(-1, keepdim=True) > 0),
                "at least 0, and one in each row above 0",
            )
            self.probs = given / given.sum(-1, keepdim=True)
            # Make the logarithms finite.
            eps = {2: 2.0**-10, 4: 2.0**-23, 8: 2.0**-52}[given.itemsize]
            self.logits = self.probs.clamp(eps, 1 - eps).log()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return random indices in shape ``(*sample_shape, *batch_shape)``."""
        with no_grad():
            rows = self.probs.detach().reshape(-1, self.probs.shape[-1])
            drawn = rows.multinomial(prod(sample_shape), True)
            return drawn.mT.reshape(*sample_shape, *self.batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of each index in `value`."""
        count = self.logits.shape[-1]
        self._require("value", logical_and(value >= 0, value < count), f"an index from 0 to {count - 1}")
        places = value.long().unsqueeze(-1)
        batch = broadcast_shapes(value.shape, self.batch_shape)
        logits = self.logits.expand((*batch, self.logits.shape[-1]))
        return logits.gather(-1, places.expand((*batch, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        return -(self.probs * self.logits).sum(-1)

    def __repr__(self) -> str:
        return f"Categorical(probs: {self.probs})"
