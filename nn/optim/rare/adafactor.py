"""Adafactor."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import tensor as tn
from nn.optim.chunks import chunk_keys
from nn.optim.optimizer import Group, Optimizer
from nn.optim.options import Bound, bounds, require_real
from scopes._shared.naming import set_module
from tensor import Tensor
from tensor._dtypes import Array
from tensor._errors import shown
from tensor.kernels import empty

if TYPE_CHECKING:
    from nn.optim.chunks import Key

    Variance = Callable[[Key], Array]


@set_module("nn.optim")
class Adafactor(Optimizer):
    """Adafactor: Adam with second moments of rows and columns only (Shazeer and Stern, 2018), as in PyTorch.

    For a matrix with n rows and m columns the state has n + m numbers. A tensor of more dimensions is a batch
    of matrices. For a vector the state has one number for each element. Steps are relative to the root mean
    square of the parameter, and `d` limits them.

    Parameters
    ----------
    params
        Leaf tensors, or dicts of options with such tensors under ``"params"``. They must be real.
    lr
        The upper bound of the relative step size, which is 1 / sqrt(number of steps) otherwise.
    beta2_decay
        An exponent of at most 0: the weight of a new squared gradient is the number of steps to this power.
    eps
        The lower bounds of the roots of second moments (None: the machine epsilon), and of the root mean
        square of a parameter.
    d
        The upper bound of the root mean square of an update, at least 1; infinity for no bound.
    weight_decay
        Each step subtracts ``lr * weight_decay`` times the parameter.
    maximize
        Maximize the objective instead of minimizing it.
    foreach
        Accepted for compatibility with PyTorch. No effect: a step is one pass over each parameter.

    Raises
    ------
    ValueError
        If an option is out of its range, or a parameter is complex.

    Examples
    --------
    >>> import nn, tensor
    >>> x = nn.Parameter(tensor.ones((2, 3)))
    >>> optimizer = nn.optim.Adafactor([x], lr=0.1)
    >>> (x * 5).sum().backward()
    >>> optimizer.step()
    >>> round(x[0, 0].item(), 4)
    0.9
    >>> optimizer.state[x]["row_var"].shape, optimizer.state[x]["col_var"].shape
    ((2, 1), (1, 3))
    """

    _bounds = bounds(
        "weight_decay",
        lr=Bound(0.0, math.inf, True),
        beta2_decay=Bound(-math.inf, 0.0, True),
        d=Bound(1.0, math.inf, True),
    )
    _counter = "step"

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        foreach: bool | None = None,  # noqa: ARG002
    ) -> None:
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def _check_options(self, group: Group) -> None:
        super()._check_options(group)
        eps = group["eps"]
        if not isinstance(eps, (tuple, list)) or len(eps) != 2:
            raise ValueError(f"Adafactor: eps must be two numbers, or None and a number, not {shown(eps)}")
        if not all(Bound().holds(value) or (i == 0 and value is None) for i, value in enumerate(eps)):
            raise ValueError(
                f"Adafactor: eps must be two numbers of at least 0, or None and one, not {shown(eps)}"
            )
        require_real("Adafactor", group["params"])

    def _parts(self, group: Group) -> Sequence[tuple[list[Tensor], tuple[str, ...]]]:
        matrices = [x for x in group["params"] if x.ndim > 1]
        vectors = [x for x in group["params"] if x.ndim <= 1]
        return (matrices, ("row_var", "col_var")), (vectors, ("variance",))

    def _shape_of(self, name: str, x: Tensor) -> tuple[int, ...]:
        if name == "row_var":
            return (*x.shape[:-1], 1)
        if name == "col_var":
            return (*x.shape[:-2], 1, *x.shape[-1:])
        return x.shape

    def _new_state(self, group: Group, x: Tensor, name: str) -> Tensor:  # noqa: ARG002
        zeros = empty(self._shape_of(name, x), x._live_array().dtype, None)
        zeros.fill(0)
        return self._unowned(zeros)

    def _numbers(self, group: Group, steps: int) -> tuple[float, ...]:
        step, (eps1, eps2), lr = steps + 1, group["eps"], group["lr"]
        relative = min(lr, 1 / math.sqrt(step))
        floor = -1.0 if eps1 is None else eps1
        new_weight = step ** group["beta2_decay"]
        decay = 1 - lr * group["weight_decay"] if group["weight_decay"] else 1.0
        return -1 if group["maximize"] else 1, new_weight, floor, eps2, group["d"], decay, relative

    def _update_plainly(self, numbers: tuple[float, ...], arrays: list[Array]) -> None:
        sign, new_weight, floor, least, d, decay, relative = numbers
        p, g, *state = arrays
        if floor < 0:
            floor = tn.finfo(p.dtype).eps
        keys = [_with_last_axes(key, p.ndim) for key in chunk_keys(p.shape)]
        size = math.sqrt(sum(_squares(p[key]).sum() for key in keys) / p.size)
        p *= decay
        variance = (
            _factored(keys, g, state, new_weight, floor) if p.ndim > 1 else _whole(g, state, new_weight)
        )

        def update(key: Key) -> Array:
            return g[key] / np.sqrt(np.maximum(variance(key), floor * floor))

        # Compute the update twice, because its norm is needed first and the whole update is never in memory.
        update_size = math.sqrt(sum(_squares(update(key)).sum() for key in keys) / p.size)
        rate = sign * relative * max(least, size) / max(1.0, update_size / d)
        for key in keys:
            p[key] -= update(key) * rate


def _factored(keys: list[Key], g: Array, state: list[Array], new_weight: float, floor: float) -> Variance:
    """Update the means over rows and columns with the squares of `g`.

    Return a function that computes the variance of a chunk: the product of both means, divided by the mean of
    the whole matrix.
    """
    sums = [np.zeros(held.shape, np.result_type(held, np.float32)) for held in state]
    for key in keys:
        squares = _squares(g[key])
        for axis, total in zip((-1, -2), sums, strict=True):
            total[_along(key, total)] += squares.sum(axis=axis, keepdims=True)
    for axis, held, total in zip((-1, -2), state, sums, strict=True):
        held += (total / g.shape[axis] - held) * new_weight
    rows, columns = state
    means = np.maximum(rows.mean(axis=-2, keepdims=True), floor)

    def variance(key: Key) -> Array:
        shares: Array = rows[_along(key, rows)] / means[_along(key, means)]
        return shares * columns[_along(key, columns)]

    return variance


def _whole(g: Array, state: list[Array], new_weight: float) -> Variance:
    """Update the elementwise mean with the squares of `g`. Return a function that reads it."""
    (held,) = state
    for key in chunk_keys(g.shape):
        held[key] += (g[key] * g[key] - held[key]) * new_weight

    def variance(key: Key) -> Array:
        return held[key]

    return variance


def _squares(array: Array) -> Array:
    squares: Array = np.square(array, dtype=np.result_type(array, np.float32))
    return squares


def _with_last_axes(key: Key, ndim: int) -> Key:
    """Return `key` with slices for the last two axes, so that indexing keeps both."""
    return tuple(
        slice(k, k + 1) if isinstance(k, int) and axis >= ndim - 2 else k for axis, k in enumerate(key)
    )


def _along(key: Key, array: Array) -> Key:
    """Return `key` for `array`, which has size 1 in one of the last two axes."""
    return tuple(
        slice(None) if axis >= array.ndim - 2 and array.shape[axis] == 1 and isinstance(k, slice) else k
        for axis, k in enumerate(key)
    )
