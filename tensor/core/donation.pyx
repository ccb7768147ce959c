"""Donated operands of functions that are made of several ops.

An op uses a donated operand up. A function that needs its operand for several ops is a `composite`: within
it a donated operand is an ordinary one, and only its `last_use` may write over it. When the function returns,
the operand is empty.
"""

from scopes.core.disposable cimport hand_over_place
from tensor.core.storage cimport array_of, is_unshared, move_storage
from tensor.core.tensor cimport TensorCore, is_tensor, new_tensor
from tensor.memory.allocator cimport count_donation

from functools import update_wrapper

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


def composite(function):
    """Let `function`, which uses its operands in several ops, take donated ones."""

    def run(*operands, **options):
        cdef list held = _hold(operands, None)
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
