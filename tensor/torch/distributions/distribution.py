"""Base class of distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensor as tn
from scopes._shared.naming import set_module
from tensor import InvalidArgumentError, Tensor, broadcast_tensors, no_grad


@set_module("tensor.torch.distributions")
class Distribution:
    """Base class of distributions.

    An object is a batch of distributions, each with its own parameters. Subclasses define ``sample`` or
    ``rsample``, ``log_prob`` and ``entropy``.

    Parameters
    ----------
    batch_shape
        The shape of the batch: the shape of one sample, without `event_shape`.
    validate_args
        Whether to check parameters and values, and raise an error for invalid ones.
    """

    has_rsample = False

    def __init__(self, batch_shape: Sequence[int] = (), validate_args: bool | None = None) -> None:
        self.batch_shape: tuple[int, ...] = tuple(batch_shape)
        self.event_shape: tuple[int, ...] = ()
        self._validates = validate_args is not False

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return a sample, or samples with leading dimensions `sample_shape`, without gradient history."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return a sample that is differentiable with respect to the parameters (reparameterized)."""
        del sample_shape
        raise NotImplementedError(
            f"{type(self).__name__} has no samples with gradients: write sample() and log_prob()"
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability or density at `value`."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        raise NotImplementedError

    def _shape_of(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape)

    def _require(self, name: str, holds: Tensor, what: str) -> None:
        """Raise an error unless all elements of `holds` are true."""
        if self._validates and not bool(holds.all().item()):
            raise InvalidArgumentError(f"{type(self).__name__}: each element of {name} must be {what}")


def broadcast_parameters(*parameters: Any) -> tuple[Tensor, ...]:
    """Return tensors and numbers as tensors of one shape. Numbers get the dtype of the tensors."""
    tensors = [x for x in parameters if hasattr(x, "dtype")]
    like = tensors[0] if tensors else tn.tensor(0.0)
    return tuple(
        broadcast_tensors(*[x if hasattr(x, "dtype") else like.new_tensor(float(x)) for x in parameters])
    )
