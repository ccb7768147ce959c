"""Donated operands of functions that are made of several ops.

An op uses a donated operand up. A function that needs its operand for several ops is a `composite`: within
it a donated operand is an ordinary one, and only its `last_use` may write over it. When the function returns,
the operand is empty.
"""

cimport numpy as cnp

from scopes.core.disposable cimport hand_over_place
from tensor.core.bfloat16 cimport FIRST_OF_OTHERS, is_bfloat16, is_inexact
from tensor.core.storage cimport array_of, is_unshared, move_storage
from tensor.core.tensor cimport TensorCore, is_tensor, new_tensor
from tensor.memory.allocator cimport count_donation

from functools import update_wrapper

import numpy as np

cnp.import_array()

cdef object _float32 = np.dtype(np.float32)

# The reason in the error for an operand that a later call uses after its donation.
cdef str USED = "the op that it was donated to has used it"


cdef inline list _hold(object operands, list held):
    """Clear the donation of the donated `operands`; append these to `held` and return it."""
    for x in operands:
        if is_tensor(x) and ((<TensorCore>x).is_donated or (<TensorCore>x).holds):
            (<TensorCore>x).is_donated = False
            (<TensorCore>x).holds += 1
            if held is None:
                held = []
            held.append(x)
    return held


cdef int _end_hold(list held, object result, bint has_failed) except -1:
    cdef TensorCore x
    for each in held:
        x = <TensorCore>each
        if x.holds != 1:
            # Another op had its last use, or the calling function still needs it.
            x.holds = max(0, x.holds - 1)
            continue
        x.holds = 0
        if x.is_invalid:
            count_donation(False)
            continue
        x.is_donated = True
        # After an error the operand is unchanged. It also stays if it is the result, as of an op in place.
        if not has_failed and each is not result:
            x.ending = USED
            each.dispose()
    return 0


# --- Operands of bfloat16 -----------------------------------------------------------------------------------


cdef int _count_narrow(object operands, bint* has_other) except -1:
    """Return how many of `operands` are tensors of bfloat16; note whether others are floating or complex."""
    cdef int count = 0
    cdef cnp.ndarray array
    for x in operands:
        if is_tensor(x):
            array = (<TensorCore>x).stored  # None for few values, which are of NumPy's own dtypes
            if array is not None and cnp.PyArray_TYPE(array) >= FIRST_OF_OTHERS:
                count += 1
            elif not has_other[0]:
                array = array_of(<TensorCore>x)
                has_other[0] = array is not None and is_inexact(array)
        elif type(x) is tuple or type(x) is list:
            count += _count_narrow(x, has_other)
    return count


cdef inline bint _has_narrow(tuple operands, dict options, bint* has_other) except -1:
    cdef int count = _count_narrow(operands, has_other)
    if options:
        count += _count_narrow(options.values(), has_other)
    return count > 0


cdef object _wide(object x, list pairs):
    """Return the tensor `x` as float32, with its history, if it is bfloat16; also those in a list.

    Each is added to `pairs` with its wider copy.
    """
    cdef list parts
    if is_tensor(x):
        if not is_bfloat16(array_of(<TensorCore>x)):
            return x
        wide = x.to(_float32)
        pairs.append((x, wide))
        return wide
    if type(x) is tuple or type(x) is list:
        parts = []
        for part in x:
            parts.append(_wide(part, pairs))
        return parts if type(x) is list else tuple(parts)
    return x


cdef object _narrow(object x):
    """Return a result with bfloat16 for each tensor of float32."""
    cdef list parts
    if is_tensor(x):
        return x.bfloat16() if x.dtype == _float32 else x
    if isinstance(x, (tuple, list)):
        parts = []
        for part in x:
            parts.append(_narrow(part))
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    return x


cdef object _run_wide(object function, object operands, dict options, bint has_other):
    cdef list given = [], pairs = []
    cdef dict named = {}
    for x in operands:
        given.append(_wide(x, pairs))
    for name, x in options.items():
        named[name] = _wide(x, pairs)
    result = function(*given, **named)
    for x, wide in pairs:
        if result is wide:  # written in place
            return x.copy_(wide)
    return result if has_other or options.get("dtype") is not None else _narrow(result)


def widening(function):
    """Let `function` compute with operands of bfloat16 in float32, and round its results once.

    For what has several ops, or a kernel that is not called by the dispatcher. The tape records the casts.
    """

    def run(*operands, **options):
        cdef bint has_other = False
        if _has_narrow(operands, options, &has_other):
            return _run_wide(function, operands, options, has_other)
        return function(*operands, **options)

    return update_wrapper(run, function)


# --- Composites ---------------------------------------------------------------------------------------------


def composite(function):
    """Let `function`, which uses its operands in several ops, take donated ones, and those of bfloat16."""

    def run(*operands, **options):
        cdef bint has_other = False
        cdef list held
        if _has_narrow(operands, options, &has_other):
            return _run_wide(run, operands, options, has_other)
        held = _hold(operands, None)
        if options:
            held = _hold(options.values(), held)
        if held is None:
            return function(*operands, **options)
        try:
            result = function(*operands, **options)
        except BaseException:
            _end_hold(held, None, True)
            raise
        _end_hold(held, result, False)
        return result

    return update_wrapper(run, function)


def last_use(x):
    """Return `x`; if it was donated to the `composite` that runs, the next op may write over it."""
    if is_tensor(x) and (<TensorCore>x).holds == 1:
        (<TensorCore>x).holds = 0
        (<TensorCore>x).is_donated = True
    return x


def own(TensorCore x not None, *others):
    """Return a tensor with the values of `x`, to be written to: its memory if it is donated, else a clone.

    `others` are the other operands, which may be `x` too.
    """
    cdef TensorCore y
    if not x.is_donated or x._node is not None or array_of(x) is None or not is_unshared(x):
        return x.clone()
    for other in others:
        if other is x:
            return x.clone()
    y = new_tensor()
    x.is_donated = False
    move_storage(x, y, USED)
    hand_over_place(x, y)
    count_donation(True)
    return y
