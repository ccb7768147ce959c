"""The gradients that parameters have gathered."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tensor.lowlevel import TensorCore


def gradient_of(x: TensorCore) -> TensorCore | None:
    """Return the gradient that `x` has gathered; None where there is none, or an empty one."""
    gradient: TensorCore | None = x._grad
    return None if gradient is None or gradient.is_invalid else gradient
