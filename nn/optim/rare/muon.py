"""Muon."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import Bound, bounds, require_real
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import shown

_RATES = (None, "original", "match_rms_adamw")


@set_module("nn.optim")
class Muon(Optimizer):
    """Muon: steps along the orthogonalized momentum, whose singular values are about 1 (Jordan et al., 2024).

    It is for the matrices of hidden layers. Use another optimizer for other parameters (biases, embeddings).
    Newton-Schulz iterations orthogonalize the momentum. Their intermediate results are rounded to bfloat16,
    as in PyTorch. For large matrices, steps differ from PyTorch's in the third digit, because sums have
    another order.

    Parameters
    ----------
    params
        Leaf tensors of two dimensions, or dicts of options with such tensors under ``"params"``.
    lr
        The learning rate.
    weight_decay
        Each step subtracts ``lr * weight_decay`` times the parameter.
    momentum
        The decay rate of the mean of gradients.
    nesterov
        Use Nesterov momentum.
    ns_coefficients
        The factors a, b and c of an iteration: X becomes ``a X + (b A + c A A) X`` with ``A = X X.T``.
    eps
        The lower bound of the norm by which a matrix is divided before the first iteration.
    ns_steps
        The number of iterations, below 100.
    adjust_lr_fn
        The factor of the learning rate of a matrix with n rows and m columns: ``max(1, n / m) ** 0.5`` for
        ``"original"`` and None, ``0.2 * max(n, m) ** 0.5`` for ``"match_rms_adamw"``, which makes steps as
        large as those of ``AdamW`` (Liu et al., 2025).

    Raises
    ------
    ValueError
        If an option is out of its range, or a parameter is complex or not a matrix.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.zeros((2, 2)))
    >>> optimizer = nn.optim.Muon([x], lr=0.1)
    >>> (x * tensor.tensor([[3.0, 0.0], [0.0, -1.0]])).sum().backward()
    >>> optimizer.step()
    >>> [[round(v, 1) for v in row] for row in x.tolist()]
    [[-0.1, 0.0], [0.0, 0.1]]
    """

    _bounds = bounds(
        "lr", "weight_decay", "momentum", "eps", ns_steps=Bound(0, 100), ns_coefficients=Bound(-math.inf)
    )
    _state_names = ("momentum_buffer",)

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        coefficients = group["ns_coefficients"]
        if not isinstance(coefficients, (tuple, list)) or len(coefficients) != 3:
            raise ValueError(f"Muon: ns_coefficients must be three numbers, not {shown(coefficients)}")
        if group["adjust_lr_fn"] not in _RATES:
            raise ValueError(
                "Muon: adjust_lr_fn must be None, 'original' or 'match_rms_adamw', not "
                f"{shown(group['adjust_lr_fn'])}"
            )
        if group["ns_steps"] % 1:
            raise ValueError(f"Muon: ns_steps must be an integer, not {shown(group['ns_steps'])}")
        require_real("Muon", group["params"])
        for i, x in enumerate(group["params"]):
            if x.ndim != 2:
                raise ValueError(
                    f"parameters of Muon must be matrices, but parameter {i} has shape {x.shape}: use "
                    "another optimizer for the others, such as AdamW"
                )

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:  # noqa: ARG002
        lr, momentum = group["lr"], group["momentum"]
        return (
            1 - lr * group["weight_decay"],
            momentum,
            momentum if group["nesterov"] else 1.0,
            group["eps"],
            group["ns_steps"],
            lr,
            _RATES.index(group["adjust_lr_fn"]),
            *group["ns_coefficients"],
        )

    def _update_plainly(self, numbers: tuple[float, ...], arrays: list[Array]) -> None:
        shrink, momentum, momentum_share, eps, steps, lr, adjusted, *coefficients = numbers
        p, g, m = arrays
        m += (g - m) * (1 - momentum)
        update = _orthogonal(g + (m - g) * momentum_share, coefficients, int(steps), eps)
        n, columns = p.shape
        if _RATES[int(adjusted)] == "match_rms_adamw":
            lr *= 0.2 * math.sqrt(max(n, columns))
        else:
            lr *= math.sqrt(max(1, n / columns))
        p *= shrink
        p -= update.astype(p.dtype) * lr


def _orthogonal(matrix: Array, coefficients: list[float], steps: int, eps: float) -> Array:
    """Return `matrix` in float32, with its singular values changed to about 0.7 to 1.2."""
    a, b, c = (np.float32(value) for value in coefficients)
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = np.array(matrix.T if is_tall else matrix, np.float32, order="C")
    x[np.isnan(x)] = np.nan
    _round(x)
    norm, least = np.sqrt(np.sum(x * x, keepdims=True)), np.full((1, 1), eps, np.float32)
    x /= np.maximum(_round(norm), _round(least))
    _round(x)
    for _ in range(steps):
        gram = _round(x @ x.T)
        # `gram` is symmetric. Multiply by its transpose, because BLAS computes only half of such a product.
        factor = gram @ gram.T
        factor *= c
        gram *= b
        factor += gram
        product = _round(factor) @ x
        x *= a
        product += x
        x = _round(product)
    return x.T if is_tall else x


def _round(array: Array) -> Array:
    """Round the float32 `array` in place to bfloat16, half to even.

    ``np.nan`` stays nan, and operations keep its bits. Other nans may become infinite or 0.
    """
    bits = array.view(np.uint32)
    carry = bits >> np.uint32(16)
    carry &= np.uint32(1)
    carry += np.uint32(0x7FFF)
    bits += carry
    bits &= np.uint32(0xFFFF0000)
    return array
