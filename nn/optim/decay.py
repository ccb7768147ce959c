"""The gradient in the formulas of optimizers, with the sign of the objective and with weight decay."""

from __future__ import annotations

from nn.optim.optimizer import Group
from tensor._dtypes import Array


def sign_and_decay(group: Group) -> tuple[float, float]:
    """Return the first arguments of `with_sign_and_decay`."""
    return -1 if group["maximize"] else 1, group["weight_decay"]


def with_sign_and_decay(sign: float, decay: float, p: Array, g: Array) -> Array:
    """Return the gradient `g`, negated to maximize, with the weight decay of the parameter `p`."""
    g = g * sign
    return g + p * decay if decay else g
