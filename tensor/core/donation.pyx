"""Donation of operands to functions that run several ops.

An op may write its result over a donated operand. A function that needs its operand in several ops is a
`composite`. Inside it, the donated operand is an ordinary tensor, and only the op that gets ``last_use(x)``
may write over it. After the function returns, the operand is disposed, unless it is the result.
"""

cimport numpy as cnp

from scopes.core.disposable cimport hand_over_place
from tensor.core.bfloat16 cimport FIRST_OF_OTHERS, is_bfloat16, is_inexact
from tensor.core.inline_values cimport IN_FILE
from tensor.core.storage cimport array_of, is_unshared, move_storage
from tensor.core.tensor cimport TensorCore, is_tensor, new_tensor
from tensor.memory.allocator cimport count_donation

from functools import update_wrapper

import numpy as np

cnp.import_array()

cdef object _float32 = np.dtype(np.float32)

# The reason in the error when code uses an operand after its donation.
cdef str USED = "the op that it was donated to has used it"


cdef inline list _hold(object operands, list held):
    """Clear the donation mark of donated `operands`, append them to `held`, and return `held`."""
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
            # Another op already used it, or an outer composite still needs it.
            x.holds = max(0, x.holds - 1)
            continue
        x.holds = 0
        if x.is_invalid:
            count_donation(False)
            continue
        x.is_donated = True
        # Keep the operand after an error, and if it is the result (of an in-place op).
        if not has_failed and each is not result:
            x.ending = USED
            each.dispose()
    return 0


# --- Operands of bfloat16 -----------------------------------------------------------------------------------


cdef int _count_narrow(object operands, bint* has_other) except -1:
    """Return the number of bfloat16 tensors. Set `has_other` if another tensor is floating or complex."""
    cdef int count = 0
    cdef cnp.ndarray array
    for x in operands:
        if is_tensor(x):
            # `stored` is None for inline values, which never are bfloat16.
            array = (<TensorCore>x).stored
            if (<TensorCore>x).inlined.nbytes == IN_FILE:
                array = array_of(<TensorCore>x)
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
    """Return `x` with each bfloat16 tensor, also in a list or tuple, cast to float32.

    The tape records the casts. Append each such tensor with its float32 copy to `pairs`.
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
    """Return a result with each float32 tensor cast to bfloat16."""
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
        if result is wide:  # the function wrote in place
            return x.copy_(wide)
    return result if has_other or options.get("dtype") is not None else _narrow(result)


def widening(function):
    """Return `function` with its bfloat16 operands cast to float32 and its results rounded to bfloat16.

    For functions with several ops, or with a kernel that the dispatcher does not call. The tape records the
    casts. Results are not rounded if another operand is floating or complex, or `dtype` is given.
    """

    def run(*operands, **options):
        cdef bint has_other = False
        if _has_narrow(operands, options, &has_other):
            return _run_wide(function, operands, options, has_other)
        return function(*operands, **options)

    return update_wrapper(run, function)


# --- Composites ---------------------------------------------------------------------------------------------


def composite(function):
    """Return `function`, which calls several ops, with support for donated and bfloat16 operands."""

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
    """Return `x`. If it was donated to the running `composite`, mark that the next op may write over it."""
    if is_tensor(x) and (<TensorCore>x).holds == 1:
        (<TensorCore>x).holds = 0
        (<TensorCore>x).is_donated = True
    return x


def own(TensorCore x not None, *others):
    """Return a tensor to write to, with the values of `x`: the memory of a donated `x`, or a clone.

    Clone also if `x` shares its memory, has a graph, or is one of `others`, the other operands of the op.
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
