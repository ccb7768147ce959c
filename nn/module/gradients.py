"""The accumulated gradients of parameters."""

from __future__ import annotations

from tensor.core.tensor import TensorCore


def gradient_of(x: TensorCore) -> TensorCore | None:
    """Return the accumulated gradient of `x`; None if there is none or it is disposed."""
    gradient: TensorCore | None = x._grad
    return None if gradient is None or gradient.is_invalid else gradient
