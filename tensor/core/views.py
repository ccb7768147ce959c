"""Tensors over what NumPy finds in another tensor's array: the same memory, where it is a view."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any
from weakref import ref

from scopes import Disposable
from scopes.lowlevel import register
from tensor.core.dims import fill_in, sizes_of
from tensor.core.plain import plain
from tensor.core.storage import seat_of, shared_hold
from tensor.core.tensor_core import TensorCore, wrap
from tensor.kernels.placing import reshape as _reshape
from tensor.memory.books import Size
from tensor.tape.growth import complete
from tensor.tape.modes import grad_enabled
from tensor.tape.nodes import Node
from tensor.tape.rules import RULES

if TYPE_CHECKING:
    from tensor.core.storage import Array
    from tensor.core.tensor import Tensor
    from tensor.tape.nodes import Rule

_new = Disposable.__new__
_recorder = grad_enabled.get
_RESHAPE = RULES["reshape"]
_NO_HOLDS = ((), (None,), (None, None), (None, None, None))


def over(x: TensorCore, out: Array, rule: Rule | None, saved: tuple[Any, ...] = ()) -> Tensor:
    """Return a tensor over `out`, a new array that lies over the memory of `x`, or is a copy.

    `rule` derives it, None where nothing shall, and asks for what is `saved`, as ``recorded`` has it.
    """
    node = None if x._node is None or rule is None else recorded(rule, x, out, saved)
    array = x._array
    base = out.base
    if base is not array and (base is None or base is not array.base):  # type: ignore[union-attr]  # seen by callers
        return wrap(out, node)
    seat = x._seat
    if seat is None:
        seat = seat_of(x)
    hold = x._hold
    if hold is None or hold.__class__ is Size:
        hold = shared_hold(x)
    # The lines of `Members.enter`, where the calls would cost 100 ns of 700.
    y = _new(plain.kind)
    y._array = out
    y._hold = hold
    y._seat = seat
    y._node = node
    y._grad = None
    storage = seat.storage
    members = storage.members
    members.append(ref(y))
    if len(members) > storage.most:
        storage.look_through()
    register(y)
    return y


def is_view(out: Array, array: Array) -> bool:
    """Tell whether `out`, found in `array`, lies over its memory: NumPy may have needed a copy."""
    base = out.base
    return base is array or (base is not None and base is array.base)


def recorded(rule: Rule, x: TensorCore, out: Array, saved: tuple[Any, ...] = ()) -> Node | None:
    """Return the node of a view of `x`, or None where none is wanted.

    `saved` is what the derivative asks for, in that order: parameters, of which none is an array.
    """
    before = x._node
    if before is None:
        return None
    recorder = _recorder()
    if not recorder:
        return None
    node = Node()
    node.rule = rule
    node.plan = rule.of_one or rule.plan((True,))
    node.next = (before,)
    node.saved = saved
    node.holds = _NO_HOLDS[len(saved)]
    node.hooks = None
    return complete(node, out, recorder)


def reshaped(x: TensorCore, shape: tuple[object, ...], copy: bool | None) -> Tensor:
    """Return `x` in the shape of ``f(2, 3)`` or ``f((2, 3))``."""
    array = x._array
    if array is None:
        x._raise_disposed()
    given = shape if len(shape) != 1 or type(shape[0]) is not tuple else shape[0]
    out = array
    if x._hold is not None or array.flags.c_contiguous:
        # NumPy sees what is wrong sooner than we do. It takes any negative size for -1.
        try:
            out = array.reshape(given)
        except (TypeError, ValueError):
            out = array
        else:
            if out.shape != given and -1 not in given:
                out = array
    if out is array:
        sizes = sizes_for(x, shape)
        out = _reshape(array, sizes)
        if out is array:
            out = array.view()
    if copy is False and not is_view(out, array):
        strides = tuple([n // array.itemsize for n in array.strides])
        raise ValueError(
            f"shape {array.shape} with strides {strides} has no view of shape {out.shape}: its "
            "elements do not lie in that order. Use x.reshape(...), which copies where it must, or "
            "x.contiguous() before"
        )
    return over(x, out, _RESHAPE)


def sizes_for(x: TensorCore, shape: tuple[object, ...]) -> tuple[int, ...]:
    """Return the sizes of ``f(2, 3)`` or ``f((2, 3))``, -1 filled in."""
    before = x._array.shape  # type: ignore[union-attr]  # callers have seen it
    return fill_in("reshape", sizes_of("reshape", shape), prod(before), before)
