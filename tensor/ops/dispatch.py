"""The one road from a call to a new tensor: NumPy kernel, tape, tensor.

``apply`` serves most ops, ``view`` those that share memory, ``overwrite`` those that write in place;
``tensor.ops.elementary`` makes the functions of elementwise ops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tensor._dtypes import require_supported
from tensor.core.plain import plain
from tensor.core.storage import (
    Array,
    Hold,
    Holder,
    claim_and_hold,
    relatives,
    shared_hold,
    writable,
)
from tensor.core.tensor_core import TensorCore, as_array, hold_for, wrap
from tensor.core.views import over
from tensor.kernels.placing import copy
from tensor.kernels.pooled import enter, leave
from tensor.memory.books import Size, owner_of
from tensor.tape.growth import complete, look_closer, ticks
from tensor.tape.hooks import continue_with
from tensor.tape.modes import grad_enabled
from tensor.tape.nodes import Leaf, Node, Rule
from tensor.tape.rules import RULES
from tensor.tape.rules.overlay import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.tensor import Tensor

_recorder = grad_enabled.get
ndarray = np.ndarray

# What elementwise functions take beside tensors: arrays, and numbers, which have no dtype of their own.
Operand = TensorCore | np.ndarray[Any, Any] | np.generic | complex

# Which of our functions does what a ufunc of NumPy does: for np.sin(x) on a tensor.
function_of: dict[np.ufunc, Callable[..., Any]] = {}


def operand(x: object) -> Any:
    """Return what a kernel takes for `x`: an array, or a Python scalar, which has no dtype of its own.

    Returns NotImplemented for what is no number, array or tensor.
    """
    if isinstance(x, TensorCore):
        array = x._array
        if array is None:
            x._raise_disposed()
        return array
    if isinstance(x, (bool, int, float, complex)):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        require_supported(x.dtype)
        return np.asarray(x)
    return NotImplemented


def record(rule: Rule, inputs: Sequence[object], out: Array, parameters: dict[str, Any]) -> Node | None:
    """Return the node of an op with `inputs` (tensors, arrays, scalars), or None when none is wanted."""
    nodes = tuple([getattr(x, "_node", None) for x in inputs])
    if not any(nodes) or not rule.is_differentiable or out.dtype.kind not in "fc":
        return None
    recorder = _recorder()
    if not recorder:
        return None
    wanted = tuple([node is not None for node in nodes])
    plan = rule.plans.get(wanted)
    if plan is None:
        plan = rule.plan(wanted)
    saved: list[Any] = []
    holds: list[Hold] = []
    for source in plan.saves:
        hold: Hold = None
        if isinstance(source, str):
            value = parameters[source]
            if type(value) is ndarray:
                hold = hold_for(value)
        elif source == len(inputs):
            value = out  # whoever wraps it counts it
        else:
            value = inputs[source]
            # Arrays that nobody outside sees are shared with the node; others are copied.
            if isinstance(value, TensorCore) and value._seat is None and value._array is not None:
                hold = shared_hold(value)
                value = value._array
            else:
                value, hold = _claim_operand(value, value)
        saved.append(value)
        holds.append(hold)
    node = Node()
    node.rule = rule
    node.plan = plan
    node.next = nodes
    node.saved = tuple(saved)
    node.holds = tuple(holds)
    node.hooks = None
    return complete(node, out, recorder)


def record_one(rule: Rule, before: Node, x: Any, a: Any, out: Array) -> Node | None:
    """Return what ``record`` returns for an op of one input, with the node `before`, sooner.

    The op has no parameters, and gives inexact numbers for inexact numbers, or is not differentiable.
    """
    recorder = _recorder()
    if not recorder or not rule.is_differentiable:
        return None
    plan = rule.of_one
    if plan is None:
        plan = rule.plan((True,))
    node = Node()
    node.rule = rule
    node.plan = plan
    node.next = (before,)
    node.hooks = None
    pick = plan.pick
    if pick is None:
        node.saved = ()
        node.holds = ()
    else:
        hold: Hold
        if x._seat is None:
            hold = shared_hold(x)
        else:
            a, hold = claim_and_hold(x)
        node.saved = pick((a, out))
        node.holds = pick((hold, None))
    return complete(node, out, recorder)


def record_after(rule: Rule, before: Node | None, out: Array) -> Node | None:
    """Return the node of an op of one input that no tensor ever held: `before` is the input's own node.

    The op was computed in the memory of its input; its derivative needs `out` alone.
    """
    return None if before is None else record_one(rule, before, _NOBODY, out, out)


class _Nobody:
    """Stands for a tensor that was never made."""

    _seat = None
    _hold = None


_NOBODY = _Nobody()


def record_pair(
    rule: Rule, node1: Node | None, node2: Node | None, x1: Any, x2: Any, a: Any, b: Any, out: Array
) -> Node | None:
    """Return what ``record`` returns for an op of two inputs, one of which has a node, sooner.

    The op has no parameters, and gives inexact numbers for inexact numbers.
    """
    recorder = _recorder()
    if not recorder or not rule.is_differentiable:
        return None
    plan = rule.of_first if node2 is None else rule.of_second if node1 is None else rule.of_both
    if plan is None:
        plan = rule.plan((node1 is not None, node2 is not None))
    node = Node()
    node.rule = rule
    node.plan = plan
    node.next = (node1, node2)
    node.hooks = None
    pick = plan.pick
    if pick is None:
        node.saved = ()
        node.holds = ()
    else:
        # Arrays that nobody outside sees are shared with the node; others are copied. In place of
        # `shared_hold` what it does: its calls are 80 ns of 1,600.
        if type(x1) is plain.kind and x1._seat is None:
            a_hold = x1._hold
            if a_hold.__class__ is Size:
                a_hold = x1._hold = (a_hold,)
        else:
            a, a_hold = _claim_operand(x1, a)
        if type(x2) is plain.kind and x2._seat is None:
            b_hold = x2._hold
            if b_hold.__class__ is Size:
                b_hold = x2._hold = (b_hold,)
        else:
            b, b_hold = _claim_operand(x2, b)
        node.saved = pick((a, b, out))
        node.holds = pick((a_hold, b_hold, None))
    # What `complete` does: its call is 40 ns.
    node.shape = out.shape
    node.dtype = out.dtype
    left = ticks.left = ticks.left - 1
    if left < 0:
        look_closer(node)
    if recorder is not True:
        recorder.show(node)
    return node


def _claim_operand(x: object, array: Any) -> tuple[Any, Hold]:
    if isinstance(x, TensorCore):
        return claim_and_hold(x)
    if isinstance(array, ndarray):
        array = copy(array)
        return array, hold_for(array)
    return array, None


def apply(rule: Rule, kernel: Callable[..., Any], inputs: Sequence[object], /, **parameters: Any) -> Tensor:
    """Run `kernel` on the arrays of `inputs`; the derivative may ask for `parameters`."""
    arrays = [operand(x) for x in inputs]
    for x, array in zip(inputs, arrays, strict=True):
        if array is NotImplemented:
            raise foreign(rule.name, x)
    try:
        out = as_array(leave(kernel(*[enter(array) for array in arrays])))
    except (TypeError, ValueError, OverflowError) as error:
        raise explain(rule.name, error, arrays) from None
    y = wrap(out, record(rule, inputs, out, parameters))
    for x in inputs:
        if type(x) is plain.donated:
            x._drop()
    return y


def view(rule: Rule, make: Callable[[Array], Any], x: TensorCore, /, **parameters: Any) -> Tensor:
    """Return a tensor over what `make` finds in the array of `x`: the same memory, where it is a view.

    `parameters` are what the derivative asks for, in that order.
    """
    array = x._array
    if array is None:
        x._raise_disposed()
    try:
        out = make(array)
    except (TypeError, ValueError) as error:
        raise explain(rule.name, error, [array]) from None
    if out is array:  # NumPy's way of saying that nothing changes; two tensors never hold one array object
        out = array.view()
    if array.flags.writeable and not out.flags.writeable:
        # NumPy marks an expanded view read-only, and then its rows too; here the strides decide (`writable`).
        out.flags.writeable = True
    return over(x, out, rule, tuple(parameters.values()))


def overwrite(
    rule: Rule, x: Tensor, write: Callable[[Array], object], inputs: Sequence[object], /, **parameters: Any
) -> Tensor:
    """Let `write` change the array of `x` in place and give `x` the history of having been so changed.

    `inputs` are what the new value is computed from, `x` itself first; `rule` derives by them. Operands are
    checked by the caller before: `write` must not fail half way. Views that share what was written get the
    history too.
    """
    for other in inputs:
        if isinstance(other, TensorCore):
            other._raise_if_disposed()
    node = None
    others: list[Holder] = []
    if _recorder() and any(getattr(other, "_node", None) is not None for other in inputs):
        others = relatives(x)
        require_writable_history(rule.name, x, others)
        # What the derivative needs of the old values is claimed before the write, which then copies.
        node = record(rule, inputs, cast("Array", x._array), parameters)
    if node is not None and node.plan.saves_out:
        _save_output(node, None)
    write(writable(x))
    if node is not None:
        if node.plan.saves_out:
            _save_output(node, x)
        continue_with(x, node)
        for other in others:
            _overlay(cast("TensorCore", other), x)
    return x


def _save_output(node: Node, x: TensorCore | None) -> None:
    """Put the values of `x` where the node of a write saves its output."""
    place = len(node.next)
    out, hold = (None, None) if x is None else claim_and_hold(x)
    saved = zip(node.plan.saves, cast("tuple[Any, ...]", node.saved), strict=True)
    node.saved = tuple([out if source == place else value for source, value in saved])
    node.holds = (*node.holds, hold)


def _overlay(whole: TensorCore, part: TensorCore) -> None:
    """Give `whole` the history of its elements in `part` having been written."""
    array, written = whole._array, part._array
    if array is None or written is None or not np.may_share_memory(array, written):
        return
    start = owner_of(array).__array_interface__["data"][0]
    node = record(
        RULES["overlay"],
        (whole, part),
        array,
        {"whole_places": Places(array, start), "part_places": Places(written, start)},
    )
    if node is not None:
        continue_with(whole, node)


LEAF_WRITE = (
    "a leaf tensor that requires grad can't be written in place while gradients are recorded: its gradient "
    "would lose its meaning. Write inside `with tensor.no_grad():`, or to x.clone()"
)
SHARED_WRITE = (
    "this tensor shares memory with one of another dtype (a view of its real or imaginary parts, or what "
    "it is "
    "such a view of), whose history would miss this recorded write. Write to x.clone(), or inside "
    "`with tensor.no_grad():`, or dispose the other one first"
)
INTEGER_WRITE = (
    "values that require grad can't be written into a tensor of integers or bools: only floating and complex "
    "tensors carry gradients. Write value.detach(), or convert the tensor first (x.float())"
)


def require_writable_history(name: str, x: TensorCore, others: Sequence[Holder]) -> None:
    """Raise when a recorded write to `x` would leave some gradient history untrue."""
    if any(type(getattr(holder, "_node", None)) is Leaf for holder in (x, *others)):
        raise RuntimeError(f"{name}: {LEAF_WRITE}")
    dtype = cast("Array", x._array).dtype
    if dtype.kind not in "fc":
        raise RuntimeError(f"{name}: {INTEGER_WRITE}")
    if any(cast("Array", holder._array).dtype != dtype for holder in others):
        raise RuntimeError(f"{name}: {SHARED_WRITE}")


def foreign(name: str, x: object) -> TypeError:
    """Return the error to raise for an operand that is neither tensor nor array nor number."""
    return TypeError(
        f"{name} takes tensors, arrays and numbers, not {type(x).__name__}: write tensor.tensor(data) first"
    )


def explain(name: str, error: Exception, arrays: Sequence[Any]) -> Exception:
    """Return the error to raise when the kernel of `name` failed on `arrays`: what, why, what instead."""
    text = str(error)
    shapes = " and ".join(
        f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else type(x).__name__ for x in arrays
    )
    if "broadcast" in text:
        return ValueError(
            f"{name}: shapes don't fit together: {shapes}. From the last dimension backward, sizes must be "
            "equal or 1; reshape one of them (x.unsqueeze(dim), x.reshape(...), x.mT)"
        )
    if "not have enough dimensions" in text:
        return ValueError(f"{name} takes vectors and matrices, not numbers: {shapes}. Write x * y to scale")
    if "matmul" in text or "mismatch in its core dimension" in text:
        return ValueError(
            f"{name}: shapes don't fit together: {shapes}. The last dimension of the first must equal the "
            "second to last of the second; transpose one of them (x.mT)"
        )
    if "negative integer powers" in text:
        return ValueError(
            f"{name}: integers have no negative integer powers: {shapes}. Convert one of them with x.float()"
        )
    if isinstance(error, OverflowError):
        return OverflowError(f"{name} of {shapes}: {text}. Convert the tensor with x.to(dtype)")
    if isinstance(error, TypeError):
        return TypeError(f"{name} is not defined for {shapes}: {text}. Convert with x.to(dtype)")
    return ValueError(f"{name} of {shapes}: {text}")
