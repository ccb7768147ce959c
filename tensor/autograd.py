"""Gradients as values: ``autograd.grad``, and the switches of recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensor._backward import own_layout, run_backward
from tensor._core import TensorCore, wrap
from tensor._gradients import root_of
from tensor._graph import Node, enable_grad, no_grad, set_grad_enabled
from tensor._graph import is_recording as is_grad_enabled
from tensor._storage import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tensor._tensor import Tensor

__all__ = ["backward", "enable_grad", "grad", "is_grad_enabled", "no_grad", "set_grad_enabled"]


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the derivatives of the sum of `outputs` by each of `inputs`; no ``grad`` changes.

    Parameters
    ----------
    outputs
        Tensors with gradient history.
    inputs
        Tensors that require grad, leaves or not. Each derivative has its input's shape and dtype.
    grad_outputs
        For each output the derivative of what is wanted by it, in its shape; None is 1 for one element.
    retain_graph
        Keep the graph's saved values for another backward.
    allow_unused
        Return None for an input that no output depends on, in place of an error.

    Returns
    -------
    A tuple of new tensors, in the order of `inputs`.

    Raises
    ------
    RuntimeError
        If an input does not require grad, or no output depends on it and `allow_unused` is False.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.tensor([1.0, 2.0], requires_grad=True)
    >>> (dx,) = autograd.grad((x * x * x).sum(), x)
    >>> dx.tolist()
    [3.0, 12.0]
    """
    ends = _tensors("outputs", outputs)
    starts = _tensors("inputs", inputs)
    nodes: list[Node] = []
    for i, x in enumerate(starts):
        if x._node is None:
            raise RuntimeError(
                f"autograd.grad: inputs[{i}] does not require grad, so nothing was recorded by it. Make "
                "it with "
                "requires_grad=True, or call x.requires_grad_() before it is used"
            )
        nodes.append(x._node)
    found = run_backward(_roots(ends, grad_outputs), retain_graph=retain_graph, only=frozenset(nodes))
    for i, node in enumerate(nodes):
        if node not in found and not allow_unused:
            raise RuntimeError(
                f"autograd.grad: no output depends on inputs[{i}]. Leave it out, or pass "
                "allow_unused=True to get "
                "None for it"
            )
    return tuple([wrap(own_layout(found[node])) if node in found else None for node in nodes])


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Add to the ``grad`` of each leaf the derivative of the sum of `tensors` by it, in one walk.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.tensor([1.0], requires_grad=True)
    >>> autograd.backward([x * 2, x * 3])
    >>> x.grad.tolist()
    [5.0]
    """
    run_backward(_roots(_tensors("tensors", tensors), grad_tensors), retain_graph=retain_graph)


def _tensors(what: str, given: object) -> list[TensorCore]:
    tensors: list[TensorCore] = []
    for i, x in enumerate(given if isinstance(given, (list, tuple)) else [given]):
        if not isinstance(x, TensorCore):
            raise TypeError(f"autograd: {what}[{i}] is a {type(x).__name__}, not a tensor")
        x._raise_if_disposed()
        tensors.append(x)
    if not tensors:
        raise ValueError(f"autograd: {what} is empty: pass at least one tensor")
    return tensors


def _roots(outputs: list[TensorCore], gradients: object) -> list[tuple[Node, Array]]:
    given = [None] * len(outputs) if gradients is None else gradients
    given = list(given) if isinstance(given, (list, tuple)) else [given]
    if len(given) != len(outputs):
        raise ValueError(
            f"autograd: {len(outputs)} outputs need {len(outputs)} gradients, not {len(given)}: pass one "
            "for each, "
            "None where the output has one element"
        )
    return [root_of(x, g) for x, g in zip(outputs, given, strict=True)]
