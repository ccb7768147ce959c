"""Gradient attributes of tensors, ``backward`` and ``grad``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from scopes._shared.on_demand import ModuleOnDemand
from scopes._shared.tracebacks import clear_library_frames
from tensor._dtypes import Array, Dtype, is_inexact
from tensor.autograd.engine import Backward
from tensor.core.tensor import TensorCore, snapshot_share, wrap
from tensor.tape.modes import GradMode
from tensor.tape.recording import Leaf, Node, become_leaf

if TYPE_CHECKING:
    from tensor._tensor import Tensor
    from tensor.autograd import tensor_gradients
    from tensor.memory.buffer import Share

    # A start of backward: a node, its gradient (an array or a tensor), and the share that keeps the array.
    Root = tuple[Node, Any, "Share | None"]
else:
    # Imported at its first use: higher derivatives need factorizations and Fourier transforms.
    tensor_gradients = ModuleOnDemand("tensor.autograd.tensor_gradients")


def take_values(x: TensorCore, values: TensorCore) -> None:
    """Give `x` the values of another tensor, shared until a write. A leaf stays a leaf.

    It keeps its gradient if shape and dtype do not change.
    """
    before, given = x._live_array(), values._live_array()
    is_leaf = x._node is not None
    if is_leaf and not isinstance(x._node, Leaf):
        raise RuntimeError(
            "x.data can only be assigned to leaves, but this tensor was computed from others: its history "
            "would be wrong. Write to x.detach()"
        )
    if is_leaf and not is_inexact(given.dtype):
        raise RuntimeError(
            f"a tensor that requires grad can't take values of {given.dtype}: only floating and complex "
            "tensors can have gradients"
        )
    grad = x._grad if given.shape == before.shape and given.dtype == before.dtype else None
    x._share_values_of(values)
    if is_leaf:
        become_leaf(x)
        x._grad = grad


def backward_from(
    outputs: Sequence[TensorCore],
    gradients: Sequence[TensorCore | None],
    retain_graph: bool | None,
    create_graph: bool,
) -> None:
    """Accumulate the gradients of `outputs` in the leaves."""
    walk(retain_graph, create_graph).run(roots_of(outputs, gradients, create_graph))


def add_gradients(
    outputs: Sequence[TensorCore],
    gradients: Sequence[TensorCore | None],
    retain_graph: bool | None,
    create_graph: bool,
    inputs: object,
) -> None:
    """Add the derivatives of `outputs` to the gradients of the leaves `inputs` only."""
    leaves = _tensors("inputs", inputs)
    for i, x in enumerate(leaves):
        if not isinstance(x._node, Leaf):
            raise RuntimeError(
                f"backward: inputs[{i}] is not a leaf that requires grad, so it accumulates no gradient"
            )
    nodes = frozenset([x._node for x in leaves if x._node is not None])
    walk(retain_graph, create_graph, nodes, into_leaves=True).run(roots_of(outputs, gradients, create_graph))


def walk(
    retain_graph: bool | None,
    create_graph: bool,
    only: Collection[Node] | None = None,
    into_leaves: bool = False,
) -> Backward:
    """Return a backward pass, ready to run."""
    keep = create_graph if retain_graph is None else retain_graph
    if create_graph:
        return tensor_gradients.RecordedBackward(keep, only, into_leaves)
    return Backward(keep, only, into_leaves=into_leaves)


def roots_of(
    outputs: Sequence[TensorCore], gradients: Sequence[TensorCore | None], create_graph: bool
) -> list[Root]:
    """Return the starts of backward, with their gradients."""
    roots = [root_of(x, g) for x, g in zip(outputs, gradients, strict=True)]
    if not create_graph:
        return roots
    with GradMode(True):
        return [
            (node, wrap(array.copy()) if given is None else as_dtype_of(given, array), None)
            for (node, array, _), given in zip(roots, gradients, strict=True)
        ]


def as_dtype_of(given: TensorCore, array: Array) -> Any:
    """Return `given` in the dtype of `array`, with its history."""
    same: Any = given
    return same if same.dtype == array.dtype else same.to(array.dtype)


@lru_cache(maxsize=64)
def _default_gradient(shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Return an array of ones with one element."""
    return np.ones(shape, dtype)


def root_of(output: TensorCore, gradient: TensorCore | None) -> Root:
    """Return the start of backward for `output`. Raise an error without history or a required gradient."""
    if not isinstance(output, TensorCore):
        raise TypeError(
            f"backward needs a tensor, not {type(output).__name__}: use the tensor that the loss function "
            "returned, before .item()"
        )
    output._raise_if_disposed()
    node, array = output._node, output._array
    if node is None or array is None:
        raise RuntimeError(
            "this tensor has no gradient history: no input of its computation required grad, it was "
            "computed under no_grad(), or its op has no derivative (such as argmax and comparisons). Create "
            "the inputs with requires_grad=True, and use an op that has a derivative"
        )
    if gradient is None:
        if array.size != 1:
            raise RuntimeError(
                f"backward without a gradient needs a tensor of one element, not of shape {array.shape}: "
                "reduce the tensor first (loss.mean(), loss.sum()), or pass backward(gradient=...) in its "
                "shape"
            )
        if node.dtype.kind == "c":
            raise RuntimeError(
                "backward without a gradient needs a real number, not a complex one: write "
                "z.abs().backward(), z.real.backward(), or pass backward(gradient=...)"
            )
        return node, _default_gradient(node.shape, node.dtype), None
    if not isinstance(gradient, TensorCore):
        raise TypeError(
            f"gradient must be a tensor, not {type(gradient).__name__}: write tensor.tensor(gradient)"
        )
    gradient._raise_if_disposed()
    share = snapshot_share(gradient)
    given = share.array
    if given.shape != node.shape:
        raise ValueError(
            f"the gradient of a tensor of shape {node.shape} must have that shape, not {given.shape}: pass "
            "gradient=tensor.ones(x.shape) or the like"
        )
    if given.dtype == node.dtype:
        return node, given, share
    return node, given.astype(node.dtype), None


@overload
def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: Literal[False] = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
def grad(
    outputs: Tensor | Iterable[Tensor],
    inputs: Tensor | Iterable[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the derivatives of the sum of `outputs` with respect to `inputs`. No ``grad`` changes.

    Parameters
    ----------
    outputs
        Tensors with gradient history.
    inputs
        Tensors that require grad, leaves or not, such as ``model.parameters()``. Each derivative has its
        input's shape and dtype.
    grad_outputs
        The gradient with respect to each output, in its shape. None is 1, for an output of one element.
    retain_graph
        Keep the graph's saved values for another backward. None: the value of `create_graph`.
    create_graph
        Record backward itself, so that the derivatives have history and can be differentiated again.
    allow_unused
        Return None for an input that no output depends on, instead of raising an error.
    materialize_grads
        Return zeros for such an input, instead of None or an error.

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
    >>> (dx,) = autograd.grad((x * x * x).sum(), x, create_graph=True)
    >>> autograd.grad(dx.sum(), x)[0].tolist()
    [6.0, 12.0]
    """
    try:
        ends, starts = _tensors("outputs", outputs), _tensors("inputs", inputs)
        found = _derivatives(
            ends,
            starts,
            _gradients_for(ends, grad_outputs),
            retain_graph=create_graph if retain_graph is None else retain_graph,
            create_graph=create_graph,
            allow_unused=allow_unused or materialize_grads,
        )
        if materialize_grads:
            found = tuple(
                wrap(np.zeros_like(x._live_array())) if g is None else g
                for x, g in zip(starts, found, strict=True)
            )
        return found
    except BaseException as error:
        clear_library_frames(error)
        ends = starts = []
        del outputs, inputs, grad_outputs  # so that a stored error keeps no graph alive
        raise


def _derivatives(
    outputs: list[TensorCore],
    inputs: list[TensorCore],
    gradients: list[TensorCore | None],
    *,
    retain_graph: bool,
    create_graph: bool,
    allow_unused: bool,
) -> tuple[Tensor | None, ...]:
    nodes: list[Node] = []
    for i, x in enumerate(inputs):
        if x._node is None:
            raise RuntimeError(
                f"autograd.grad: inputs[{i}] does not require grad, so no op on it was recorded. Create it "
                "with requires_grad=True, or call x.requires_grad_() before it is used"
            )
        nodes.append(x._node)
    run = walk(retain_graph, create_graph, frozenset(nodes))
    run.run(roots_of(outputs, gradients, create_graph))
    found = run.gradients()
    for i, node in enumerate(nodes):
        if node not in found and not allow_unused:
            raise RuntimeError(
                f"autograd.grad: no output depends on inputs[{i}]. Omit it, or pass "
                "allow_unused=True to get None for it"
            )
    return tuple([found.get(node) for node in nodes])


def backward(
    tensors: Tensor | Iterable[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Iterable[Tensor] | None = None,
) -> None:
    """Add the derivative of the sum of `tensors` to the ``grad`` of each leaf (or of `inputs`), in one pass.

    Examples
    --------
    >>> import tensor
    >>> from tensor import autograd
    >>> x = tensor.tensor([1.0], requires_grad=True)
    >>> autograd.backward([x * 2, x * 3])
    >>> x.grad.tolist()
    [5.0]
    """
    try:
        given = _tensors("tensors", tensors)
        gradients = _gradients_for(given, grad_tensors)
        if inputs is None:
            backward_from(given, gradients, retain_graph, create_graph)
        else:
            add_gradients(given, gradients, retain_graph, create_graph, inputs)
    except BaseException as error:
        clear_library_frames(error)
        given, gradients = [], []
        del tensors, grad_tensors, inputs  # so that a stored error keeps no graph alive
        raise


def _tensors(what: str, given: object) -> list[TensorCore]:
    tensors: list[TensorCore] = []
    all_given: Iterable[object] = [given]
    if isinstance(given, Iterable) and not isinstance(given, TensorCore):
        all_given = given
    for i, x in enumerate(all_given):
        if not isinstance(x, TensorCore):
            raise TypeError(
                f"autograd: {what}[{i}] must be a tensor, not {type(x).__name__}: pass one, or several in "
                "a list or an iterator"
            )
        x._raise_if_disposed()
        tensors.append(x)
    if not tensors:
        raise ValueError(f"autograd: {what} is empty: pass at least one tensor")
    return tensors


def _gradients_for(outputs: Sequence[TensorCore], given: object) -> list[TensorCore | None]:
    """Return a gradient, or None, for each of `outputs`."""
    gradients: list[Any] = [None] * len(outputs) if given is None else [given]
    if isinstance(given, (list, tuple)):
        gradients = list(given)
    if len(gradients) != len(outputs):
        raise ValueError(
            f"autograd: each output needs a gradient, but {len(outputs)} have {len(gradients)}: pass None as "
            "the gradient of an output with one element"
        )
    return gradients
