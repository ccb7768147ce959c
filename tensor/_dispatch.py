"""The one road from a call to a new tensor: NumPy kernel, tape, tensor.

``binary`` and ``unary`` make the functions of whole families of elementwise ops, with the way of a small op
written out in one piece; ``apply`` serves all other ops, ``view`` those that share memory, ``overwrite``
those that write in place.
"""

from __future__ import annotations

from _thread import get_ident
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import numpy as np

from scopes.lowlevel import current, register
from tensor._core import TensorCore, as_array, plain, wrap
from tensor._data import as_data
from tensor._derivatives import RULES
from tensor._derivatives._overlay import Places
from tensor._dtypes import require_supported
from tensor._graph import Leaf, Node, Rule, grad_enabled
from tensor._storage import Array, Holder, claim, family_of, join, owner_of, relatives, share, writable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor._tensor import Tensor

_new = object.__new__
_current_scope = current.get
_is_recording = grad_enabled.get
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
    if not any(nodes) or not rule.is_differentiable or not _is_recording() or out.dtype.kind not in "fc":
        return None
    plan = rule.plan(tuple([node is not None for node in nodes]))
    saved: list[Any] = []
    for source in plan.saves:
        if isinstance(source, str):
            saved.append(parameters[source])
        elif source == len(inputs):
            saved.append(out)
        else:
            saved.append(_claim_operand(inputs[source], inputs[source]))
    node = _new(Node)
    node.rule = rule
    node.plan = plan
    node.next = nodes
    node.saved = tuple(saved)
    node.shape = out.shape
    node.dtype = out.dtype
    return node


def record_pair(rule: Rule, x1: Any, x2: Any, a: Any, b: Any, out: Array) -> Node | None:
    """Return what ``record`` returns for an op of two inputs and no parameters, in half the time."""
    if not rule.is_differentiable or not _is_recording():
        return None
    dtype = out.dtype
    if dtype.kind not in "fc":
        return None
    nodes = (getattr(x1, "_node", None), getattr(x2, "_node", None))
    wanted = (nodes[0] is not None, nodes[1] is not None)
    plan = rule.plans.get(wanted)
    if plan is None:
        plan = rule.plan(wanted)
    node = _new(Node)
    node.rule = rule
    node.plan = plan
    node.next = nodes
    pick = plan.pick
    if pick is None:
        node.saved = ()
    else:
        # Arrays that nobody outside sees are shared with the node; others are copied.
        if type(x1) is not plain.kind or x1._seat is not None:
            a = _claim_operand(x1, a)
        if type(x2) is not plain.kind or x2._seat is not None:
            b = _claim_operand(x2, b)
        node.saved = pick((a, b, out))
    node.shape = out.shape
    node.dtype = dtype
    return node


def _claim_operand(x: object, array: Any) -> Any:
    if isinstance(x, TensorCore):
        return claim(x)
    return array.copy() if isinstance(array, ndarray) else array


def apply(rule: Rule, kernel: Callable[..., Any], inputs: Sequence[object], /, **parameters: Any) -> Tensor:
    """Run `kernel` on the arrays of `inputs`; the derivative may ask for `parameters`."""
    arrays = [operand(x) for x in inputs]
    for x, array in zip(inputs, arrays, strict=True):
        if array is NotImplemented:
            raise foreign(rule.name, x)
    try:
        out = as_array(kernel(*arrays))
    except (TypeError, ValueError, OverflowError) as error:
        raise explain(rule.name, error, arrays) from None
    return wrap(out, record(rule, inputs, out, parameters))


def view(rule: Rule, make: Callable[[Array], Any], x: TensorCore, /, **parameters: Any) -> Tensor:
    """Return a tensor over what `make` finds in the array of `x`: the same memory, where it is a view."""
    x._raise_if_disposed()
    storage = share(x)
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
    result = wrap(out, None if x._node is None else record(rule, (x,), out, parameters))
    if out.base is array.base and out.base is not None:
        join(storage, result, family_of(x))
    return result


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
    if _is_recording() and any(getattr(other, "_node", None) is not None for other in inputs):
        others = relatives(x)
        require_writable_history(rule.name, x, others)
        # What the derivative needs of the old values is claimed before the write, which then copies.
        node = record(rule, inputs, cast("Array", x._array), parameters)
    if node is not None:
        _save_output(node, None)
    write(writable(x))
    if node is not None:
        _save_output(node, x)
        x._node = node
        for other in others:
            _overlay(cast("TensorCore", other), x)
    return x


def _save_output(node: Node, x: TensorCore | None) -> None:
    """Put the values of `x` where the node of a write saves its output."""
    place = len(node.next)
    if place in node.plan.saves:
        out = None if x is None else claim(x)
        saved = zip(node.plan.saves, node.saved or (), strict=True)
        node.saved = tuple([out if source == place else value for source, value in saved])


def _overlay(whole: TensorCore, part: TensorCore) -> None:
    """Give `whole` the history of its elements in `part` having been written."""
    array, written = whole._array, part._array
    if array is None or written is None or not np.may_share_memory(array, written):
        return
    start = owner_of(array).__array_interface__["data"][0]
    whole._node = record(
        RULES["overlay"],
        (whole, part),
        array,
        {"whole_places": Places(array, start), "part_places": Places(written, start)},
    )


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


def binary(
    rule: Rule, kernel: Callable[[Any, Any], Any], *, swapped: bool = False, operator: bool = True
) -> Callable[[Any, Any], Tensor]:
    """Return the function of two arguments that `kernel` is; `swapped` for reflected operators.

    An operator answers NotImplemented to foreign types, any other function raises a ``TypeError``.
    """

    def function(x1: Any, x2: Any, /) -> Any:
        try:
            a = x1._array
            a_node = x1._node
        except AttributeError:
            a = operand(x1)
            a_node = None
            if a is NotImplemented:
                raise foreign(rule.name, x1) from None
        try:
            b = x2._array
            b_node = x2._node
        except AttributeError:
            b = operand(x2)
            b_node = None
            if b is NotImplemented:
                if operator:
                    return NotImplemented
                raise foreign(rule.name, x2) from None
            if a is not None and type(a) is not ndarray:  # two numbers become what tensors of them are
                a = as_data(a, None)
        if a is None:
            x1._raise_disposed()
        if b is None:
            x2._raise_disposed()
        try:
            out = kernel(b, a) if swapped else kernel(a, b)
        except (TypeError, ValueError, OverflowError) as error:
            raise explain(rule.name, error, (b, a) if swapped else (a, b)) from None
        if type(out) is not ndarray:
            out = as_array(out)
        x = _new(plain.kind)
        x._array = out
        x._seat = None
        if a_node is None and b_node is None:
            x._node = None
        else:
            x._node = (
                record_pair(rule, x2, x1, b, a, out) if swapped else record_pair(rule, x1, x2, a, b, out)
            )
        ident, account = plain.recent
        if ident != get_ident():
            account = plain.turn_to_this_thread()
        scope = x._scope = _current_scope()
        if scope is None:
            x._place = None
            tally = x._tally = account.outside
            tally.created += 1
            return x
        place = ref(x, scope._forget)
        members = scope._members
        if members is not None:
            members[place] = None
            x._place = place
            tally = x._tally = account.inside
            tally.created += 1
            return x
        register(x)
        return x

    if not swapped and isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, function)
    return function


def unary(rule: Rule, kernel: Callable[[Any], Any]) -> Callable[[Any], Tensor]:
    """Return the function of one argument that `kernel` is."""

    def function(x: Any, /) -> Any:
        try:
            a = x._array
            node = x._node
        except AttributeError:
            a = operand(x)
            node = None
            if a is NotImplemented:
                raise foreign(rule.name, x) from None
            if type(a) is not ndarray:
                a = as_data(a, None)
        if a is None:
            x._raise_disposed()
        try:
            out = kernel(a)
        except (TypeError, ValueError) as error:
            raise explain(rule.name, error, (a,)) from None
        if type(out) is not ndarray:
            out = as_array(out)
        y = _new(plain.kind)
        y._array = out
        y._seat = None
        y._node = None if node is None else record(rule, (x,), out, {})
        ident, account = plain.recent
        if ident != get_ident():
            account = plain.turn_to_this_thread()
        scope = y._scope = _current_scope()
        if scope is None:
            y._place = None
            tally = y._tally = account.outside
            tally.created += 1
            return y
        place = ref(y, scope._forget)
        members = scope._members
        if members is not None:
            members[place] = None
            y._place = place
            tally = y._tally = account.inside
            tally.created += 1
            return y
        register(y)
        return y

    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, function)
    return function
