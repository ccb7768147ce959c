"""What all distributions have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensor as tn
from tensor import InvalidArgumentError, broadcast_tensors, no_grad

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor import Tensor


class Distribution:
    """A distribution over numbers, or several side by side: one for each element of `batch_shape`.

    Derive, and define ``sample`` or ``rsample``, ``log_prob`` and ``entropy``.

    Parameters
    ----------
    batch_shape
        The shape of one draw.
    validate_args
        Whether parameters and values are looked at: an error names those that no distribution has.
    """

    has_rsample = False

    def __init__(self, batch_shape: Sequence[int] = (), validate_args: bool | None = None) -> None:
        self.batch_shape: tuple[int, ...] = tuple(batch_shape)
        self.event_shape: tuple[int, ...] = ()
        self._validates = validate_args is not False

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return a draw, or one for each element of `sample_shape`, in front; without gradient history."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return a draw through which gradients flow to the parameters, where that is possible."""
        del sample_shape
        raise NotImplementedError(
            f"{type(self).__name__} has no draws that carry gradients: use sample() and log_prob()"
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability, or of its density, at `value`."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        raise NotImplementedError

    def _shape_of(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape)

    def _require(self, name: str, holds: Tensor, what: str) -> None:
        """Raise unless `holds` is true everywhere."""
        if self._validates and not bool(holds.all().item()):
            raise InvalidArgumentError(f"{type(self).__name__}: {name} must be {what}, everywhere")


def broadcast_parameters(*parameters: Any) -> tuple[Tensor, ...]:
    """Return parameters, tensors and numbers, as tensors of one shape; numbers take a tensor's dtype."""
    tensors = [x for x in parameters if hasattr(x, "dtype")]
    like = tensors[0] if tensors else tn.tensor(0.0)
    return tuple(
        broadcast_tensors(*[x if hasattr(x, "dtype") else like.new_tensor(float(x)) for x in parameters])
    )
