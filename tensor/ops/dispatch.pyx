"""Run ops on tensors: convert the operands, call the kernel, record the op, and create the new tensor.

`UnaryOp` and `BinaryOp` run elementwise ops and matrix products. ``apply`` runs most other ops,
``apply_into`` ops whose kernel can write to a donated operand, ``view`` ops whose result shares memory, and
``overwrite`` ops that write in place. An op disposes a donated operand (`tensor.core.donation`), and may
write its result to the operand's memory.
"""

cimport numpy as cnp
from cpython.ref cimport Py_DECREF, PyObject

from tensor.core.storage cimport array_of, begin_write, end_write, is_unshared, share_of, take_snapshot
from tensor.core.tensor cimport TensorCore, is_tensor, view_of
from tensor.core.bfloat16 cimport is_bfloat16, is_inexact, narrowed_result, wide_for, widened
from tensor.kernels.context cimport enter, leave
from tensor.kernels.elementwise cimport BinaryKernel, UnaryKernel
from tensor.memory.allocator cimport copy as copy_array
from tensor.memory.allocator cimport count_donation, is_worth_pooling
from tensor.memory.buffer cimport Buffer, Share, new_share, root_of
from tensor.memory.buffer cimport copy as counted_copy
from tensor.ops.inline_arithmetic cimport NO_ARITHMETIC, arithmetic_of, compute_inline, compute_inline_unary
from tensor.ops.promotion cimport needs_floats, needs_promotion, promoted_pair, promotion_of
from tensor.tape.nodes cimport Node, Rule
from tensor.tape.recording cimport (
    record,
    record_binary,
    record_unary,
    record_view,
    recorder,
    remember,
    set_histories,
    wrap_recorded,
)

import numpy as np

from scopes.lowlevel import note_written
from tensor._dtypes import require_supported
from tensor.core.storage import relatives
from tensor.kernels.ufuncs import compute_into, into_of
from tensor.memory.limits import OutOfMemoryError, out_of_memory
from tensor.ops.data import as_data
from tensor.ops.messages import explain, foreign, require_writable_history
from tensor.ops.overlay import add_op
from tensor.ops.promotion import as_floats

cnp.import_array()

cdef extern from *:
    """
    /* Cython raises the current Python error after this call. */
    static inline PyObject *raised(void) { return NULL; }
    """
    object raised()

cdef extern from "Python.h":
    PyObject* PyObject_Vectorcall(PyObject* function, PyObject** arguments, size_t count, PyObject* names)
    const size_t FIRST_IS_FREE "PY_VECTORCALL_ARGUMENTS_OFFSET"
    void PyErr_Fetch(PyObject** kind, PyObject** value, PyObject** traceback)
    void PyErr_Restore(PyObject* kind, PyObject* value, PyObject* traceback)

cdef object _float32 = np.dtype(np.float32)

# This library's function for each ufunc of NumPy, for calls such as np.sin(x) of a tensor.
function_of = {}


cdef inline object _operand(object x):
    if is_tensor(x):
        array = array_of(<TensorCore>x)
        if array is None:
            (<TensorCore>x)._raise_disposed()
        return array
    if isinstance(x, (float, int, complex)):
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        require_supported(x.dtype)
        return np.asarray(x)
    return NotImplemented


def operand(x):
    """Return `x` as an argument of a kernel: an array, or a Python number, which has no dtype of its own.

    Return NotImplemented if `x` is not a number, array or tensor.
    """
    return _operand(x)


cdef inline cnp.ndarray _as_array(object result):
    # NumPy returns a scalar for a result without dimensions.
    return <cnp.ndarray>result if type(result) is cnp.ndarray else np.asarray(result)


def as_array(result) -> cnp.ndarray:
    """Return a kernel's result as an array. NumPy returns a scalar for a result without dimensions."""
    return _as_array(result)


cdef object _error_of(str name, error, arrays):
    """Return the exception to raise for `error` of the kernel of `name`.

    The caller raises it outside of the ``except`` block. Otherwise `error` would be its context, whose
    traceback may hold arrays.
    """
    # NumPy runs Python code to create its MemoryError. An interrupt in that code is caught as `error`.
    if isinstance(error, OutOfMemoryError) or not isinstance(error, Exception):
        return error
    return out_of_memory() if isinstance(error, MemoryError) else explain(name, error, arrays)


# --- bfloat16 -----------------------------------------------------------------------------------------------
#
# bfloat16 is a storage dtype: kernels get float32, and their results are rounded once. Values saved for
# backward are bfloat16.


cdef bint _mixes_floats(arrays) except -1:
    """Return whether one of `arrays` is bfloat16, and another one has another floating or complex dtype."""
    cdef bint has_narrow = False, has_other = False
    for array in arrays:
        if is_bfloat16(array):
            has_narrow = True
        elif isinstance(array, cnp.ndarray) and is_inexact(<cnp.ndarray>array):
            has_other = True
    return has_narrow and has_other


cdef object _as_wide(object x):
    """Return the operand `x` as float32, with its history, if it is bfloat16."""
    if is_tensor(x):
        return x.to(_float32) if is_bfloat16(array_of(<TensorCore>x)) else x
    return widened(x)


cdef inline bint _is_donated(object x):
    return is_tensor(x) and (<TensorCore>x).is_donated


# --- Elementwise --------------------------------------------------------------------------------------------


cdef object _call(object kernel, object a, object b, Py_ssize_t count, bint pooled):
    """Return ``kernel(a)`` or ``kernel(a, b)``, depending on `count`, computed in a kernel context."""
    cdef PyObject* arguments[3]
    cdef PyObject* result
    cdef PyObject* error[3]
    arguments[1] = <PyObject*>a
    arguments[2] = <PyObject*>b
    context = enter(pooled)
    # The callee may use the slot before the first argument. `try` and `finally` would take 60 ns more.
    result = PyObject_Vectorcall(<PyObject*>kernel, arguments + 1, <size_t>count | FIRST_IS_FREE, NULL)
    if result == NULL:
        PyErr_Fetch(&error[0], &error[1], &error[2])
        leave(context, pooled)
        PyErr_Restore(error[0], error[1], error[2])
        return raised()
    leave(context, pooled)
    out = <object>result
    Py_DECREF(out)  # the call's reference
    return out


cdef inline Py_ssize_t _bytes_of(object x):
    return cnp.PyArray_NBYTES(<cnp.ndarray>x) if isinstance(x, cnp.ndarray) else 0


cdef class UnaryOp:
    """An op with one operand: its kernel and its derivative."""

    def __init__(self, Rule rule not None, kernel, UnaryKernel compiled=None):
        self.rule = rule
        self.kernel = kernel
        self.compiled = compiled
        self.promotion = promotion_of(kernel, 1)
        rule.require_no_parameters()
        self.counts_bools = kernel is np.square

    cdef TensorCore run(self, object x):
        cdef cnp.ndarray out
        cdef TensorCore computed
        cdef Node node
        if self.compiled is not None:
            computed = compute_inline_unary(self.compiled, self.rule, x)
            if computed is not None:
                return computed
        a = _operand(x)
        if a is NotImplemented:
            raise foreign(self.rule.name, x)
        if not isinstance(a, cnp.ndarray):
            a = as_data(a, None)
        a = self._promoted(a)
        if _is_donated(x):
            return _run_on_donated(self.rule, self.kernel, (x,), [a])
        failure = None
        try:
            out = self._computed(a)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            failure = _error_of(self.rule.name, error, (a,))
        if failure is not None:
            raise failure
        node = record_unary(self.rule, x, a, out)
        if node is not None and node.recipe is not None:
            remember(node, self.compute, (x,))
        return wrap_recorded(out, node)

    cdef cnp.ndarray _promoted(self, cnp.ndarray a):
        if needs_floats(self.promotion, a):
            return as_floats(a)
        if self.counts_bools and cnp.PyArray_ISBOOL(a):
            return (<object>a).astype(np.int64)
        return a

    cdef cnp.ndarray _computed(self, cnp.ndarray a):
        cdef cnp.ndarray out = None
        if is_bfloat16(a):
            return narrowed_result(self._computed(widened(a)), (<object>a).dtype)
        if self.compiled is not None:
            out = self.compiled.run(a, None)
        if out is None:
            # Use twice the bytes, because the result may have a wider dtype than the operand.
            out = _as_array(_call(self.kernel, a, None, 1, is_worth_pooling(2 * cnp.PyArray_NBYTES(a))))
        return out

    def compute(self, cnp.ndarray a not None):
        """Return the result for the array `a`, without recording."""
        return self._computed(self._promoted(a))

    def __call__(self, x):
        return self.run(x)


cdef Py_ssize_t _max_result_bytes(object a, object b):
    """Return an upper bound for the bytes of a result whose dtype is not wider than those of `a` and `b`."""
    cdef Py_ssize_t one = _bytes_of(a), two = _bytes_of(b)
    if one == 0 or two == 0:
        return one + two
    if cnp.PyArray_SAMESHAPE(<cnp.ndarray>a, <cnp.ndarray>b):
        return max(one, two)
    return max(one * cnp.PyArray_SIZE(b), two * cnp.PyArray_SIZE(a))


cdef class BinaryOp:
    """An op with two operands: its kernel and its derivative."""

    def __init__(self, Rule rule not None, kernel, BinaryKernel compiled=None):
        self.rule = rule
        self.kernel = kernel
        self.compiled = compiled
        self.arithmetic = arithmetic_of(kernel)
        self.promotion = promotion_of(kernel, 2)
        rule.require_no_parameters()

    cdef object run(self, object x1, object x2, bint is_operator):
        cdef cnp.ndarray out
        cdef Node node
        if self.arithmetic != NO_ARITHMETIC:
            computed = compute_inline(self.arithmetic, self.rule, x1, x2)
            if computed is not None:
                return computed
        a = _operand(x1)
        b = _operand(x2)
        if a is NotImplemented or b is NotImplemented:
            if is_operator:
                return NotImplemented
            raise foreign(self.rule.name, x1 if a is NotImplemented else x2)
        if not isinstance(a, cnp.ndarray) and not isinstance(b, cnp.ndarray):
            a = as_data(a, None)  # for two numbers, use the dtypes of tensors
        if is_bfloat16(a) != is_bfloat16(b) and _mixes_floats((a, b)):
            return self.run(_as_wide(x1), _as_wide(x2), is_operator)
        if needs_promotion(self.promotion, a, b):
            a, b = promoted_pair(self.promotion, a, b)
        if _is_donated(x1) or _is_donated(x2):
            return _run_on_donated(self.rule, self.kernel, (x1, x2), [a, b])
        failure = None
        try:
            out = self._computed(a, b)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            failure = _error_of(self.rule.name, error, (a, b))
        if failure is not None:
            raise failure
        node = record_binary(self.rule, x1, x2, a, b, out)
        if node is not None and node.recipe is not None:
            remember(node, self.compute, (x1, x2))
        return wrap_recorded(out, node)

    cdef cnp.ndarray _computed(self, object a, object b):
        cdef cnp.ndarray out = None
        if is_bfloat16(a) or is_bfloat16(b):
            dtype = (<object>(a if is_bfloat16(a) else b)).dtype
            return narrowed_result(self._computed(widened(a), widened(b)), dtype)
        if self.compiled is not None:
            out = self.compiled.run(a, b, None)
        if out is None:
            out = _as_array(_call(self.kernel, a, b, 2, is_worth_pooling(_max_result_bytes(a, b))))
        return out

    def compute(self, a, b):
        """Return the result for `a` and `b`, arrays or numbers, without recording."""
        if needs_promotion(self.promotion, a, b):
            a, b = promoted_pair(self.promotion, a, b)
        return self._computed(a, b)

    def __call__(self, x1, x2):
        return self.run(x1, x2, False)


# --- Donated memory -----------------------------------------------------------------------------------------


cdef TensorCore _run_on_donated(Rule rule, object kernel, tuple operands, list arrays):
    """Run an op on `arrays`, the arrays of its operands, and release donated operands.

    If possible, the result is written to the buffer of a donated operand.
    """
    cdef TensorCore donor = None
    cdef TensorCore y
    cdef cnp.ndarray out
    cdef Node node
    wide = wide_for(kernel, arrays)
    into, dtype = into_of(kernel, arrays) if wide is kernel else (None, None)
    kernel = wide
    donor = None if into is None else _donor(rule, operands, arrays, dtype)
    context = enter(True)
    failure = None
    try:
        out = _as_array(kernel(*arrays) if donor is None else compute_into(into, arrays, donor.stored))
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        failure = _error_of(rule.name, error, arrays)
    finally:
        leave(context, True)
    if failure is not None:
        raise failure
    node = record(rule, operands, out, {})
    if donor is None:
        y = wrap_recorded(out, node)
    else:
        y = _over_donated(donor, out, node)
    _release_donated(operands)
    return y


cdef str _USED = "the op that it was donated to has used it"


cdef int _release_donated(operands) except -1:
    for x in operands:
        if _is_donated(x):
            (<TensorCore>x).ending = _USED
            x.dispose()
    return 0


cdef TensorCore _over_donated(TensorCore donor, cnp.ndarray out, Node node):
    """Return a tensor over `out`, which is in the buffer of `donor`. Dispose `donor`."""
    cdef TensorCore y = view_of(donor, donor.stored, out)
    y._is_view = donor._is_view
    if node is not None:
        if node.plan.saves_out:
            node.save_output(out, new_share(<Buffer>y.buffer, out))
        y._node = node
    donor.is_donated = False
    count_donation(True)
    donor.ending = _USED
    donor.dispose()
    return y


cdef TensorCore _donor(Rule rule, operands, list arrays, dtype):
    """Return a donated operand whose buffer can store the result, or None.

    `dtype` is that of the result. If it is None, the kernel compares the dtypes.
    """
    cdef list shapes = []
    for array in arrays:
        if isinstance(array, cnp.ndarray):
            shapes.append(array.shape)
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        return None  # the op itself raises an error
    for place, x in enumerate(operands):
        if (
            _is_donated(x)
            and arrays[place].shape == shape
            and arrays[place] is (<TensorCore>x).stored
            and (dtype is None or arrays[place].dtype == dtype)
            and is_unshared(<TensorCore>x)
            and not _is_saved(rule, operands, place)
        ):
            return x
    return None


cdef bint _is_saved(Rule rule, operands, int place):
    """Return whether the derivative of the op needs the value of the operand at `place`."""
    cdef list wanted = []
    for x in operands:
        wanted.append(isinstance(x, TensorCore) and (<TensorCore>x)._node is not None)
    if True not in wanted or not rule.is_differentiable or not recorder():
        return False
    return place in rule.plan(tuple(wanted)).saves


# --- All other ops ------------------------------------------------------------------------------------------


def apply(Rule rule not None, kernel, inputs, /, **parameters) -> TensorCore:
    """Run an op: call `kernel` with the arrays of `inputs`. Its derivative may use `parameters`."""
    arrays = _arrays_of(rule, inputs)
    if _mixes_floats(arrays):
        return apply(rule, kernel, [_as_wide(x) for x in inputs], **parameters)
    return _apply(rule, wide_for(kernel, arrays), inputs, arrays, parameters)


def apply_as_is(Rule rule not None, kernel, inputs, /, **parameters) -> TensorCore:
    """Run an op as ``apply`` does, with a `kernel` that supports bfloat16: it moves or casts elements."""
    return _apply(rule, kernel, inputs, _arrays_of(rule, inputs), parameters)


cdef TensorCore _apply(Rule rule, object kernel, object inputs, list arrays, dict parameters):
    cdef cnp.ndarray out
    cdef TensorCore y
    cdef Node node
    context = enter(True)
    failure = None
    try:
        out = _copied_if_shared(_as_array(kernel(*arrays)), arrays)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        failure = _error_of(rule.name, error, arrays)
    finally:
        leave(context, True)
    if failure is not None:
        raise failure
    node = record(rule, inputs, out, parameters)
    remember(node, kernel, inputs, parameters)
    y = wrap_recorded(out, node)
    _release_donated(inputs)
    return y


def apply_into(Rule rule not None, kernel, inputs, /, **parameters) -> TensorCore:
    """Run an op as ``apply`` does, with a `kernel` that can write its result to an operand's memory.

    `kernel` gets the arrays of `inputs` (None for None), and then `out`: None, or the array of a donated
    operand with the shape of the result. It may write the result to `out` if the dtype is the same. It
    returns the array with the result.
    """
    cdef cnp.ndarray out
    cdef TensorCore y
    cdef TensorCore donor = None
    arrays = _arrays_of(rule, inputs)
    if _mixes_floats(arrays):
        return apply_into(rule, kernel, [_as_wide(x) for x in inputs], **parameters)
    wide = wide_for(kernel, arrays)
    for x in inputs:
        # A kernel that computes in float32 can't write its result to a bfloat16 array.
        if wide is kernel and _is_donated(x):
            donor = _donor(rule, inputs, arrays, None)
            break
    context = enter(True)
    failure = None
    try:
        out = _as_array(wide(*arrays, None if donor is None else donor.stored))
        if donor is not None and out is not donor.stored:
            donor = None
        if donor is None:
            out = _copied_if_shared(out, arrays)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        failure = _error_of(rule.name, error, [array for array in arrays if array is not None])
    finally:
        leave(context, True)
    if failure is not None:
        raise failure
    node = record(rule, inputs, out, parameters)
    if donor is None and node is not None and node.recipe is not None:
        remember(node, _WithoutOut(wide), inputs, parameters)
    y = wrap_recorded(out, node) if donor is None else _over_donated(donor, out, node)
    _release_donated(inputs)
    return y


cdef class _WithoutOut:
    """Kernel of ``apply_into``, called with None for `out`, so that it returns a new array."""

    cdef object kernel

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, *arrays):
        return self.kernel(*arrays, None)


cdef list _arrays_of(Rule rule, inputs):
    arrays = []
    for x in inputs:
        array = None if x is None else _operand(x)
        if array is NotImplemented:
            raise foreign(rule.name, x)
        arrays.append(array)
    return arrays


cdef cnp.ndarray _copied_if_shared(cnp.ndarray out, list arrays):
    """Return `out`, or a copy if it shares memory with an operand, which a kernel may return unchanged."""
    for array in arrays:
        if isinstance(array, cnp.ndarray) and root_of(out) is root_of(<cnp.ndarray>array):
            return copy_array(out)
    return out


def view(Rule rule not None, make, TensorCore x not None, /, **parameters) -> TensorCore:
    """Return a tensor over ``make(array)``, usually a view of the array of `x`, whose memory it then shares.

    `parameters` are the arguments of the derivative, in order.
    """
    cdef object out
    cdef cnp.ndarray array = array_of(x)
    if array is None:
        x._raise_disposed()
    failure = None
    try:
        out = make(array)
    except (TypeError, ValueError) as error:
        failure = explain(rule.name, error, [array])
    if failure is not None:
        raise failure
    return over(x, array, out, rule, tuple(parameters.values()))


cpdef TensorCore over(TensorCore x, cnp.ndarray array, cnp.ndarray out, Rule rule, tuple saved=()):
    """Return a tensor over `out`, which NumPy computed from `array`, the array of `x`: a view or a copy.

    `rule` has the derivative; None records nothing. `saved` are the arguments of the derivative, without
    arrays.
    """
    cdef Node node = None
    cdef TensorCore y
    if x._node is not None and rule is not None:
        node = record_view(rule, x, out, saved)
        if node is not None and node.recipe is not None:
            node.recipe.remember_view(node, array, out)
    if cnp.PyArray_ISWRITEABLE(array) and not cnp.PyArray_ISWRITEABLE(out):
        # NumPy marks expanded views and their views as read-only. Here `begin_write` checks the strides.
        cnp.PyArray_ENABLEFLAGS(out, cnp.NPY_ARRAY_WRITEABLE)
    y = view_of(x, array, out)
    y._node = node
    return y


def with_history(TensorCore y not None, Rule rule not None, TensorCore x not None) -> TensorCore:
    """Set the history of the new tensor `y` to an op on `x` that saves nothing, and return `y`."""
    cdef Node node = record_view(rule, x, array_of(y), ())
    if node is not None and node.recipe is not None:
        node.recipe.remember_view(node, array_of(x), array_of(y))
    y._node = node
    return y


def overwrite(Rule rule not None, TensorCore x not None, write, inputs, /, **parameters) -> TensorCore:
    """Run an in-place op: call ``write(array)`` with the array of `x`, and record the op.

    `inputs` are the operands of the op, `x` first; `rule` has a derivative for each. The caller has checked
    the operands, because `write` must not fail after it has written some elements. Views that share the
    written memory get the history too.
    """
    cdef Node node = None
    cdef Share share = None
    cdef Buffer buffer
    cdef cnp.ndarray array
    cdef bint has_history = False, saves_out = False
    for other in inputs:
        if isinstance(other, TensorCore):
            other._raise_if_disposed()
            has_history = has_history or other._node is not None
    if has_history and recorder():
        others = relatives(x)
        require_writable_history("setitem" if rule.name == "setitem" else f"{rule.name}_", x, others)
        # The node takes snapshots of the values that the derivative needs, so the write first copies them.
        node = record(rule, inputs, array_of(x), parameters)
        if node is not None:
            saves_out = node.plan.saves_out
            if saves_out:
                node.save_output(None, None)  # the node has saved the old value
            # Prepare all histories now. If a step after the write failed, they would not fit the new values.
            histories = {}
            add_op(histories, x, node, others)
    buffer = begin_write(x)
    array = x.stored  # read it now, because another thread may dispose x before the write
    context = enter(True)
    try:
        if saves_out and (buffer.exports > 0 or buffer.is_borrowed):
            share = share_of(counted_copy(array))
        write(array)
    finally:
        leave(context, True)
        end_write(buffer)
    if node is not None:
        set_histories(histories)
        if saves_out:
            if share is None:
                share = take_snapshot(x)
            else:
                cnp.PyArray_CopyInto(share.array, array)
            node.save_output(share.array, share)
        note_written(x)
    return x


def write_plainly(TensorCore x not None, write) -> None:
    """Call ``write(array)`` with the array of `x`, without recording."""
    cdef Buffer buffer = begin_write(x)
    cdef cnp.ndarray array = x.stored  # read it now, because another thread may dispose x before the write
    context = enter(True)
    try:
        write(array)
    finally:
        leave(context, True)
        end_write(buffer)
