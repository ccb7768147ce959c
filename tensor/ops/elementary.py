"""Elementwise ops: the way of a small one written out in one piece, and that of a large one.

A small op is paid for call by call, so ``binary`` and ``unary`` repeat what ``_core.wrap`` does. A large one
is paid for in memory: its result goes into the block of a donated operand, or comes from the pool.
"""

from __future__ import annotations

from functools import partial
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from scopes import Disposable
from scopes.lowlevel import register
from tensor.core.plain import plain
from tensor.core.storage import is_unshared
from tensor.core.tensor_core import TensorCore, as_array, hold_with, wrap, wrap_with
from tensor.kernels.placing import dtype_of, key_of, matmul, of_one, of_two
from tensor.kernels.pooled import enter, leave
from tensor.kernels.splitting import cost_of, least
from tensor.memory.accounting import charge, sizes
from tensor.memory.pool import hold_of, pool
from tensor.ops.data import as_data
from tensor.ops.dispatch import explain, foreign, function_of, operand, record, record_one, record_pair
from tensor.tape.modes import is_recording
from tensor.tape.nodes import Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tensor.core.donation import Donated
    from tensor.core.tensor import Tensor

_new = Disposable.__new__
ndarray = np.ndarray
_NUMBERS = frozenset({bool, int, float, complex})


def binary(
    rule: Rule, kernel: Callable[[Any, Any], Any], *, swapped: bool = False, operator: bool = True
) -> Callable[[Any, Any], Tensor]:
    """Return the function of two arguments that `kernel` is; `swapped` for reflected operators.

    An operator answers NotImplemented to foreign types, any other function raises a ``TypeError``.
    """
    # Small operands have once given a large result: from then on it is looked for.
    grows = False
    place = _place_for(kernel)
    small = _by_cost(kernel, place)

    def function(x1: Any, x2: Any, /) -> Any:
        nonlocal grows
        kind = type(x2)
        try:
            a = x1._array
            node1 = x1._node
            if kind is float or kind is int:  # 700 ns sooner than to find no `_array`
                b = x2
                node2 = None
                is_small = x1._hold is not None
            else:
                b = x2._array
                node2 = x2._node
                is_small = x1._hold is not None and x2._hold is not None
        except AttributeError:
            found = _pair(rule, operator, x1, x2)
            if found is NotImplemented:
                return NotImplemented
            a, b, node1, node2, is_small = found
            del found
        is_spacious = not is_small or grows
        if is_spacious:
            if a is None or b is None:
                _raise_disposed(x1, x2)
            if x1.__class__ is plain.donated or x2.__class__ is plain.donated:
                del a, b
                return _with_donated(rule, kernel, place, (x2, x1) if swapped else (x1, x2))
        run = place if is_spacious else small
        try:
            out = run(b, a) if swapped else run(a, b)
        except (TypeError, ValueError, OverflowError) as error:
            raise explain(rule.name, error, (b, a) if swapped else (a, b)) from None
        if type(out) is not ndarray:
            out = as_array(out)
        hold: Any  # a Size, which no other variable may hold; or what `hold_with` makes of it
        if is_spacious:
            hold = hold_of(out)
        else:
            n = out.nbytes
            try:
                hold = sizes[n]
            except KeyError:
                hold = hold_of(out)
                grows = n >= pool.min_pooled
            else:
                left = hold.left = hold.left - 1
                if left < 0 and (getrefcount(hold) > hold.high or not left & 255):
                    charge(n)
        x = _new(plain.kind)
        x._array = out
        x._seat = None
        if node1 is None and node2 is None:
            x._node = None
        else:
            node = x._node = (
                record_pair(rule, node2, node1, x2, x1, b, a, out)
                if swapped
                else record_pair(rule, node1, node2, x1, x2, a, b, out)
            )
            if node is not None and node.plan.saves_out:
                hold = hold_with(node, hold)
        x._hold = hold
        register(x)
        return x

    if not swapped and isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, function)
    return function


def _pair(rule: Rule, is_operator: bool, x1: Any, x2: Any) -> Any:
    """Return what a kernel takes for operands that are not both tensors, their nodes, and if all is small.

    Returns NotImplemented for an operator's foreign operand.
    """
    # A tensor and a number, the usual pair: 300 ns sooner.
    if type(x2) in _NUMBERS and isinstance(x1, TensorCore) and x1._array is not None:
        return x1._array, x2, x1._node, None, x1._hold is not None
    if type(x1) in _NUMBERS and isinstance(x2, TensorCore) and x2._array is not None:
        return x1, x2._array, None, x2._node, x2._hold is not None
    found: list[Any] = []
    for x in (x1, x2):
        array = operand(x)
        if array is NotImplemented:
            if is_operator and x is x2:
                return NotImplemented
            raise foreign(rule.name, x)
        found.append(array)
    a, b = found
    is_tensor = isinstance(x1, TensorCore)
    x = x1 if is_tensor else x2
    if not isinstance(x, TensorCore):
        if type(a) is not ndarray and type(b) is not ndarray:
            return as_data(a, None), b, None, None, True  # two numbers become what tensors of them are
        return a, b, None, None, False
    other = b if is_tensor else a
    nodes = (x._node, None) if is_tensor else (None, x._node)
    return a, b, *nodes, x._hold is not None and type(other) is not ndarray


def unary(rule: Rule, kernel: Callable[[Any], Any]) -> Callable[[Any], Tensor]:
    """Return the function of one argument that `kernel` is."""
    place = _place_for(kernel)
    small = _by_cost(kernel, place)

    def function(x: Any, /) -> Any:
        try:
            a = x._array
            node = x._node
            is_small = x._hold is not None
        except AttributeError:
            a = operand(x)
            node = None
            if a is NotImplemented:
                raise foreign(rule.name, x) from None
            is_small = type(a) is not ndarray
            if is_small:
                a = as_data(a, None)
        if not is_small:
            if a is None:
                _raise_disposed(x)
            if x.__class__ is plain.donated:
                del a
                return _with_donated(rule, kernel, place, (x,))
        run = small if is_small else place
        try:
            out = run(a)
        except (TypeError, ValueError) as error:
            raise explain(rule.name, error, (a,)) from None
        if type(out) is not ndarray:
            out = as_array(out)
        hold: Any  # a Size, which no other variable may hold; or what `hold_with` makes of it
        if is_small:
            n = out.nbytes
            try:
                hold = sizes[n]
            except KeyError:
                hold = hold_of(out)
            else:
                left = hold.left = hold.left - 1
                if left < 0 and (getrefcount(hold) > hold.high or not left & 255):
                    charge(n)
        else:
            hold = hold_of(out)
        y = _new(plain.kind)
        y._array = out
        y._seat = None
        if node is not None:
            node = record_one(rule, node, x, a, out)
            if node is not None and node.plan.saves_out:
                hold = hold_with(node, hold)
        y._node = node
        y._hold = hold
        register(y)
        return y

    if isinstance(kernel, np.ufunc):
        function_of.setdefault(kernel, function)
    return function


def _place_for(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs `kernel` on plain arrays, its large results in memory of the pool."""
    if kernel is np.matmul:
        return matmul
    if isinstance(kernel, np.ufunc):
        return partial(of_one if kernel.nin == 1 else of_two, kernel)
    return lambda *arrays: leave(kernel(*[enter(array) for array in arrays]))


def _by_cost(kernel: Callable[..., Any], place: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs `kernel` on arrays too small for the pool: some of them are enough for two threads."""
    if not isinstance(kernel, np.ufunc) or kernel is np.matmul or cost_of(kernel) != "dearest":
        return kernel

    def run(*arrays: Any) -> Any:
        for x in arrays:
            if type(x) is ndarray and x.nbytes >= least[kernel]:
                return place(*arrays)
        return kernel(*arrays)

    return run


def _raise_disposed(*operands: Any) -> None:
    """Raise for the first tensor that is empty."""
    for x in operands:
        operand(x)


def _with_donated(
    rule: Rule, kernel: Callable[..., Any], place: Callable[..., Any], operands: tuple[Any, ...]
) -> Tensor:
    """Run an op, in the block of a donated operand if it can be; let the donated ones go."""
    hold = None
    donor = _donor(rule, kernel, operands)
    arrays = [operand(x) for x in operands]
    try:
        out = as_array(place(*arrays) if donor is None else kernel(*arrays, out=donor._array))
    except (TypeError, ValueError, OverflowError) as error:
        raise explain(rule.name, error, arrays) from None
    node = record(rule, operands, out, {})
    if donor is not None:
        hold = donor._hand_over()
    for x in operands:
        if x.__class__ is plain.donated and x._array is not None:
            x._drop()
    if donor is None:
        return wrap(out, node)
    return wrap_with(out, node, hold if node is None or not node.plan.saves_out else hold_with(node, hold))


def _donor(rule: Rule, kernel: Callable[..., Any], operands: Sequence[Any]) -> Donated | None:
    """Return a donated operand into whose block the result may be written."""
    if not isinstance(kernel, np.ufunc) or kernel is np.matmul:
        return None
    shapes = [x.shape for x in operands if hasattr(x, "shape")]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return None  # for which the op itself finds words
    dtype = dtype_of(kernel, *[key_of(x._array if isinstance(x, TensorCore) else x) for x in operands])
    for place, x in enumerate(operands):
        if (
            x.__class__ is plain.donated
            and x.shape == shape
            and x.dtype == dtype
            and is_unshared(x)
            and not _is_saved(rule, operands, place)
        ):
            return x
    return None


def _is_saved(rule: Rule, operands: Sequence[Any], place: int) -> bool:
    """Tell whether the derivative of the op will need the value of the operand at `place`."""
    wanted = tuple([getattr(x, "_node", None) is not None for x in operands])
    return any(wanted) and rule.is_differentiable and is_recording() and place in rule.plan(wanted).saves
