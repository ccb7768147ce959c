"""Run ops on tensors: convert the operands, call the kernel, record the op, and create the new tensor.

`UnaryOp` and `BinaryOp` run elementwise ops and matrix products. ``apply`` runs most other ops,
``apply_into`` ops whose kernel can write to a donated operand, ``view`` ops whose result shares memory, and
``overwrite`` ops that write in place. An op disposes a donated operand (`tensor.core.tensor`), and may
write its result to the operand's memory.
"""

cimport cython
cimport numpy as cnp
from cpython.ref cimport PyObject, Py_DECREF
from libc.string cimport memcpy

from tensor.core.promotion cimport (
    is_bfloat16,
    is_inexact,
    narrowed_result,
    needs_floats,
    needs_promotion,
    promoted_pair,
    promotion_of,
    rounded,
    wide_for,
    widened,
)
from tensor.core.tensor cimport (
    IN_FILE,
    MAX_INLINE_BYTES,
    MAX_INLINE_DIMS,
    InlineValues,
    TensorCore,
    array_of,
    begin_write,
    end_write,
    is_tensor,
    is_unshared,
    share_of,
    take_snapshot,
    tensor_type,
    view_of,
)
from tensor.kernels.elementwise cimport BinaryKernel, Loop, Operands, UnaryKernel
from tensor.kernels.products cimport affine, affine_then
from tensor.kernels.running cimport enter, leave
from tensor.memory.allocator cimport count_donation, is_worth_pooling
from tensor.memory.allocator cimport copy as copy_array
from tensor.memory.buffer cimport Buffer, Share, new_share, root_of
from tensor.memory.buffer cimport copy as counted_copy
from tensor.tape.recording cimport (
    Node,
    Rule,
    record,
    record_after,
    record_binary,
    record_inline_binary,
    record_inline_unary,
    record_unary,
    record_view,
    recorder,
    remember,
    set_histories,
    wrap_inline,
    wrap_recorded,
)

from functools import partial
from math import prod

import numpy as np

from scopes.tracking.tracking import note_written
from tensor._dtypes import load_bfloat16, require_supported
from tensor._errors import InvalidArgumentError
from tensor.core.dims import dim_of, dims_of, infer_sizes, sizes_of
from tensor.core.promotion import as_floats
from tensor.core.tensor import relatives
from tensor.kernels import elementwise as kernels
from tensor.kernels.reductions import max_over, mean_over, min_over, sum_over
from tensor.kernels.running import run_kernel
from tensor.kernels.ufuncs import COMPILED as _COMPILED
from tensor.kernels.ufuncs import compute_into, into_of
from tensor.memory.out_of_memory import OutOfMemoryError, out_of_memory
from tensor.ops.data import as_data, as_tensor
from tensor.ops.messages import NO_GRAD_VIEW as _NO_GRAD_VIEW
from tensor.ops.messages import explain, foreign, name_in_place, require_writable_history
from tensor.ops.overlay import add_op
from tensor.tape.rules import RULES

cnp.import_array()


# --- Arithmetic on inline values ----------------------------------------------------------------------------
#
# Arithmetic on few elements, which are stored inside the tensor objects, without NumPy.
#
# For a few bytes, a call of NumPy takes several times as long as the arithmetic and the new tensor
# together: it selects a loop by the dtypes, checks for overlaps and creates an array. This module has sums,
# differences, products and quotients of float32 and float64. Operands must have the same dtype, and the
# same shape or no dimensions. IEEE 754 defines the results, so they have the same bits as NumPy's.
# Functions of one operand that have a compiled kernel call its loop. NumPy computes everything else.

cdef extern from "Python.h":
    PyObject* type_of "(PyObject *)Py_TYPE"(object x)
    bint PyFloat_CheckExact(object x)
    bint PyLong_CheckExact(object x)
    long PyLong_AsLongAndOverflow(object x, int* overflow) except? -1

# Integers up to this one are exact in float32 and float64.
cdef enum:
    MAX_EXACT = 1 << 24

cdef dict _arithmetics = {
    np.add: ADDITION,
    np.subtract: SUBTRACTION,
    np.multiply: MULTIPLICATION,
    np.divide: DIVISION,
}


cdef Arithmetic arithmetic_of(object kernel):
    return <Arithmetic><int>_arithmetics.get(kernel, NO_ARITHMETIC)


cdef inline InlineValues* _values_of(object x, InlineValues* scratch):
    """Return the values of the tensor `x`, copied to `scratch` if they are in an array; NULL to use NumPy."""
    cdef TensorCore tensor
    cdef cnp.ndarray array
    cdef Py_ssize_t nbytes
    cdef int i
    if type_of(x) != tensor_type:
        return NULL
    tensor = <TensorCore>x
    if tensor.is_donated:
        return NULL
    if tensor.inlined.nbytes != 0:
        return &tensor.inlined if tensor.inlined.nbytes != IN_FILE else NULL
    array = tensor.stored
    if array is None:
        return NULL
    nbytes = cnp.PyArray_NBYTES(array)
    if nbytes == 0 or nbytes > MAX_INLINE_BYTES or cnp.PyArray_NDIM(array) > MAX_INLINE_DIMS:
        return NULL
    if not cnp.PyArray_ISCARRAY_RO(array):
        return NULL
    memcpy(&scratch.data, cnp.PyArray_DATA(array), nbytes)
    scratch.nbytes = nbytes
    scratch.type_number = cnp.PyArray_TYPE(array)
    scratch.ndim = cnp.PyArray_NDIM(array)
    for i in range(scratch.ndim):
        scratch.dims[i] = cnp.PyArray_DIM(array, i)
    return scratch


cdef inline InlineValues* _number_like(object x, InlineValues* like, InlineValues* scratch):
    """Return the Python number `x` in the dtype of `like`, as NumPy converts it; NULL to use NumPy."""
    cdef double number
    cdef long whole
    cdef int overflow = 0
    if PyFloat_CheckExact(x):
        number = <double>x
    elif PyLong_CheckExact(x):
        whole = PyLong_AsLongAndOverflow(x, &overflow)
        if overflow or not -MAX_EXACT <= whole <= MAX_EXACT:
            return NULL
        number = <double>whole
    else:
        return NULL
    if like.type_number == cnp.NPY_FLOAT32:
        scratch.data.floats[0] = <float>number
        scratch.nbytes = sizeof(float)
    elif like.type_number == cnp.NPY_FLOAT64:
        scratch.data.doubles[0] = number
        scratch.nbytes = sizeof(double)
    else:
        return NULL
    scratch.type_number = like.type_number
    scratch.ndim = 0
    return scratch


cdef inline bint _is_same_shape(InlineValues* a, InlineValues* b) noexcept:
    cdef int i
    if a.ndim != b.ndim:
        return False
    for i in range(a.ndim):
        if a.dims[i] != b.dims[i]:
            return False
    return True


cdef fused Real:
    float
    double


@cython.cdivision(True)
cdef inline void _compute(
    Arithmetic arithmetic, Real* a, bint a_step, Real* b, bint b_step, Real* out, Py_ssize_t count
) noexcept:
    cdef Py_ssize_t i
    for i in range(count):
        if arithmetic == ADDITION:
            out[i] = a[i * a_step] + b[i * b_step]
        elif arithmetic == SUBTRACTION:
            out[i] = a[i * a_step] - b[i * b_step]
        elif arithmetic == MULTIPLICATION:
            out[i] = a[i * a_step] * b[i * b_step]
        else:
            out[i] = a[i * a_step] / b[i * b_step]


cdef TensorCore compute_inline(Arithmetic arithmetic, Rule rule, object x1, object x2):
    cdef InlineValues scratch1, scratch2, result
    cdef InlineValues* a = _values_of(x1, &scratch1)
    cdef InlineValues* b = _values_of(x2, &scratch2)
    cdef bint a_step, b_step
    cdef Py_ssize_t count
    if a == NULL:
        if b == NULL:
            return None
        a = _number_like(x1, b, &scratch1)
    elif b == NULL:
        b = _number_like(x2, a, &scratch2)
    if a == NULL or b == NULL or a.type_number != b.type_number:
        return None
    if _is_same_shape(a, b) or b.ndim == 0:
        result = a[0]
    elif a.ndim == 0:
        result = b[0]
    else:
        return None
    # An operand without dimensions is one number for all elements.
    a_step, b_step = a.ndim > 0, b.ndim > 0
    if a.type_number == cnp.NPY_FLOAT32:
        count = result.nbytes // sizeof(float)
        _compute(arithmetic, a.data.floats, a_step, b.data.floats, b_step, result.data.floats, count)
    elif a.type_number == cnp.NPY_FLOAT64:
        count = result.nbytes // sizeof(double)
        _compute(arithmetic, a.data.doubles, a_step, b.data.doubles, b_step, result.data.doubles, count)
    else:
        return None
    return wrap_inline(&result, record_inline_binary(rule, x1, x2, &result))


cdef TensorCore compute_inline_unary(UnaryKernel kernel, Rule rule, object x):
    cdef InlineValues scratch, result
    cdef InlineValues* a = _values_of(x, &scratch)
    cdef Operands operands
    cdef Loop loop
    if a == NULL:
        return None
    loop = kernel.loop_for(a.type_number)
    if loop == NULL:
        return None
    result = a[0]
    operands.a = &a.data
    operands.out = &result.data
    loop(&operands, 0, a.nbytes // (sizeof(float) if a.type_number == cnp.NPY_FLOAT32 else sizeof(double)))
    return wrap_inline(&result, record_inline_unary(rule, x, &result))


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
cdef object _floor_divide = kernels.floor_divide

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


# --- The way of each op -------------------------------------------------------------------------------------


cdef class Op:
    """An op that creates a tensor. `run_op` calls its methods in the order in which they stand here.

    `x1` and `x2` are the operands, `a` and `b` their arrays. An op with one operand has no second one, and an
    op with more operands keeps them in its fields.
    """

    cdef object computed(self, object a, object b):
        """Call the kernel. Return the array with the result, or None if the kernel can't compute it."""
        raise NotImplementedError

    cdef object explained(self, object error, object a, object b):
        """Return the exception to raise for `error` of the kernel."""
        return _error_of(self.rule.name, error, (a,) if b is None else (a, b))

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        """Return the node of the op, or None if none is needed."""
        raise NotImplementedError

    cdef TensorCore wrapped(self, cnp.ndarray out, Node node):
        """Return the tensor over `out`."""
        return wrap_recorded(out, node)


cdef TensorCore run_op(Op op, object x1, object x2, object a, object b):
    """Compute, record and wrap: the way of each op that creates a tensor."""
    cdef cnp.ndarray out
    failure = None
    try:
        out = op.computed(a, b)
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        failure = op.explained(error, a, b)
    if failure is not None:
        raise failure  # not in the except block, because the traceback of the first error holds arrays
    if out is None:
        return None
    return op.wrapped(out, op.recorded(x1, x2, a, b, out))


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


cdef class UnaryOp(Op):
    """An elementwise op with one operand."""

    def __init__(self, Rule rule not None, kernel, UnaryKernel compiled=None):
        self.rule = rule
        self.kernel = kernel
        self.compiled = compiled
        self.promotion = promotion_of(kernel, 1)
        rule.require_no_parameters()
        self.counts_bools = kernel is np.square

    cdef TensorCore run(self, object x):
        cdef TensorCore computed
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
        return run_op(self, x, None, a, None)

    cdef cnp.ndarray _promoted(self, cnp.ndarray a):
        if needs_floats(self.promotion, a):
            return as_floats(a)
        if self.counts_bools and cnp.PyArray_ISBOOL(a):
            return (<object>a).astype(np.int64)
        return a

    cdef object computed(self, object a, object b):
        cdef cnp.ndarray out = None
        if is_bfloat16(a):
            return narrowed_result(self.computed(widened(a), None), a.dtype)
        if self.compiled is not None:
            out = self.compiled.run(a, None)
        if out is None:
            # Use twice the bytes, because the result may have a wider dtype than the operand.
            out = _as_array(_call(self.kernel, a, None, 1, is_worth_pooling(2 * cnp.PyArray_NBYTES(a))))
        return out

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        cdef Node node = record_unary(self.rule, x1, a, out)
        if node is not None and node.recipe is not None:
            remember(node, self.compute, (x1,))
        return node

    def compute(self, cnp.ndarray a not None):
        """Return the result for the array `a`, without recording."""
        return self.computed(self._promoted(a), None)

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


cdef inline bint _is_half(object x) noexcept:
    return isinstance(x, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT16


cdef class BinaryOp(Op):
    """An elementwise op, or a matrix product, with two operands."""

    def __init__(self, Rule rule not None, kernel, BinaryKernel compiled=None):
        self.rule = rule
        self.kernel = kernel
        self.compiled = compiled
        self.arithmetic = arithmetic_of(kernel)
        self.promotion = promotion_of(kernel, 2)
        self.takes_bfloat16 = kernel is np.nextafter
        rule.require_no_parameters()

    cdef object run(self, object x1, object x2, bint is_operator):
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
            if is_bfloat16(a) or is_bfloat16(b):
                a, b = self.as_bfloat16(a, False), self.as_bfloat16(b, True)
            return _run_on_donated(self.rule, self.kernel, (x1, x2), [a, b])
        return run_op(self, x1, x2, a, b)

    cdef object computed(self, object a, object b):
        cdef cnp.ndarray out = None
        if is_bfloat16(a) or is_bfloat16(b):
            dtype = (<object>(a if is_bfloat16(a) else b)).dtype
            a, b = self.as_bfloat16(a, False), self.as_bfloat16(b, True)
            if not self.takes_bfloat16:
                return narrowed_result(self.computed(widened(a), widened(b)), dtype)
        if self.compiled is not None:
            out = self.compiled.run(a, b, None)
        if out is None:
            kernel = self.compiled if _is_half(a) or _is_half(b) else None  # for a number beside float16
            if kernel is None:
                kernel = self.kernel
            out = _as_array(_call(kernel, a, b, 2, is_worth_pooling(_max_result_bytes(a, b))))
        return out

    cpdef object as_bfloat16(self, object x, bint is_second):
        """Return the operand `x` beside bfloat16: a Python number is rounded, but not a factor or a divisor.

        As in PyTorch: ``x + 0.1`` adds a bfloat16, ``x * 0.1`` multiplies by a float32.
        """
        if self.arithmetic == MULTIPLICATION or self.arithmetic == DIVISION:
            return x
        if is_second and self.kernel is _floor_divide:
            return x
        if self.takes_bfloat16 and not is_bfloat16(x):
            return np.asarray(x, load_bfloat16())
        return rounded(x)

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        cdef Node node = record_binary(self.rule, x1, x2, a, b, out)
        if node is not None and node.recipe is not None:
            remember(node, self.compute, (x1, x2))
        return node

    def compute(self, a, b):
        """Return the result for `a` and `b`, arrays or numbers, without recording."""
        if needs_promotion(self.promotion, a, b):
            a, b = promoted_pair(self.promotion, a, b)
        return self.computed(a, b)

    def __call__(self, x1, x2):
        return self.run(x1, x2, False)


# --- Donated memory -----------------------------------------------------------------------------------------


cdef TensorCore _run_on_donated(Rule rule, object kernel, tuple operands, list arrays):
    """Run an elementwise op on `arrays`, the arrays of its operands, and release donated operands.

    If possible, the result is written to the buffer of a donated operand.
    """
    cdef TensorCore donor = None
    wide = wide_for(kernel, arrays)
    into, dtype = into_of(kernel, arrays) if wide is kernel else (None, None)
    if into is not None:
        donor = _donor(rule, operands, arrays, dtype)
    if donor is not None:
        wide = _Into(into)
    elif wide is kernel and kernel in _arithmetics:
        wide = _COMPILED[kernel]  # for a number beside float16
    call = _new_call(rule, wide, operands, arrays, {})
    call.donor = donor
    call.takes_out = donor is not None
    call.is_remembered = False
    return run_op(call, None, None, None, None)


cdef class _Into:
    """Calls a ufunc with the array for its result as the last argument."""

    cdef object ufunc

    def __init__(self, ufunc):
        self.ufunc = ufunc

    def __call__(self, *arrays):
        cdef Py_ssize_t count = len(arrays) - 1
        return compute_into(self.ufunc, arrays[:count], arrays[count])


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


@cython.final
cdef class _Call(Op):
    """One call of an op with any number of operands and with parameters."""

    # The operands, and their arrays.
    cdef object inputs
    cdef list arrays
    # What the derivative may use besides the operands and the result.
    cdef dict parameters
    # Whether the last argument of the kernel is the array to write to, or None: that of `donor`.
    cdef bint takes_out
    cdef TensorCore donor
    # Whether a budget may compute the result again.
    cdef bint is_remembered

    cdef object computed(self, object a, object b):
        cdef cnp.ndarray out
        context = enter(True)
        try:
            if self.takes_out:
                out = _as_array(self.kernel(*self.arrays, None if self.donor is None else self.donor.stored))
            else:
                out = _as_array(self.kernel(*self.arrays))
            if self.donor is not None:
                if out is self.donor.stored:
                    return out
                self.donor = None
            return _copied_if_shared(out, self.arrays)
        finally:
            leave(context, True)

    cdef object explained(self, object error, object a, object b):
        cdef list given = []
        for array in self.arrays:
            if array is not None:
                given.append(array)
        return _error_of(self.rule.name, error, given)

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        cdef Node node = record(self.rule, self.inputs, out, self.parameters)
        if node is not None and node.recipe is not None and self.is_remembered and self.donor is None:
            kernel = _WithoutOut(self.kernel) if self.takes_out else self.kernel
            remember(node, kernel, self.inputs, self.parameters)
        return node

    cdef TensorCore wrapped(self, cnp.ndarray out, Node node):
        y = wrap_recorded(out, node) if self.donor is None else _over_donated(self.donor, out, node)
        _release_donated(self.inputs)
        return y


cdef _Call _new_call(Rule rule, object kernel, object inputs, list arrays, dict parameters):
    cdef _Call call = _Call.__new__(_Call)
    call.rule = rule
    call.kernel = kernel
    call.inputs = inputs
    call.arrays = arrays
    call.parameters = parameters
    call.is_remembered = True
    return call


def apply(Rule rule not None, kernel, inputs, /, **parameters) -> TensorCore:
    """Run an op: call `kernel` with the arrays of `inputs`. Its derivative may use `parameters`."""
    arrays = _arrays_of(rule, inputs)
    if _mixes_floats(arrays):
        return apply(rule, kernel, [_as_wide(x) for x in inputs], **parameters)
    call = _new_call(rule, wide_for(kernel, arrays), inputs, arrays, parameters)
    return run_op(call, None, None, None, None)


def apply_as_is(Rule rule not None, kernel, inputs, /, **parameters) -> TensorCore:
    """Run an op as ``apply`` does, with a `kernel` that supports bfloat16: it moves or casts elements."""
    call = _new_call(rule, kernel, inputs, _arrays_of(rule, inputs), parameters)
    return run_op(call, None, None, None, None)


def apply_into(Rule rule not None, kernel, inputs, /, **parameters) -> TensorCore:
    """Run an op as ``apply`` does, with a `kernel` that can write its result to an operand's memory.

    `kernel` gets the arrays of `inputs` (None for None), and then `out`: None, or the array of a donated
    operand with the shape of the result. It may write the result to `out` if the dtype is the same. It
    returns the array with the result.
    """
    arrays = _arrays_of(rule, inputs)
    if _mixes_floats(arrays):
        return apply_into(rule, kernel, [_as_wide(x) for x in inputs], **parameters)
    call = _new_call(rule, wide_for(kernel, arrays), inputs, arrays, parameters)
    call.takes_out = True
    for x in inputs:
        # A kernel that computes in float32 can't write its result to a bfloat16 array.
        if call.kernel is kernel and _is_donated(x):
            call.donor = _donor(rule, inputs, arrays, None)
            break
    return run_op(call, None, None, None, None)


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


@cython.final
cdef class _View(Op):
    """One call of an op whose result usually is a view of the array of its operand."""

    cdef TensorCore x
    cdef cnp.ndarray array
    # The arguments of the derivative, without arrays.
    cdef tuple saved

    cdef object computed(self, object a, object b):
        return self.kernel(a)

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        return _node_of_view(self.x, self.array, out, self.rule, self.saved)

    cdef TensorCore wrapped(self, cnp.ndarray out, Node node):
        return _wrapped_view(self.x, self.array, out, node)


def view(Rule rule not None, make, TensorCore x not None, /, **parameters) -> TensorCore:
    """Return a tensor over ``make(array)``, usually a view of the array of `x`, whose memory it then shares.

    `parameters` are the arguments of the derivative, in order.
    """
    cdef _View op = _View.__new__(_View)
    op.rule = rule
    op.kernel = make
    op.x = x
    op.array = array_of(x)
    op.saved = tuple(parameters.values())
    if op.array is None:
        x._raise_disposed()
    return run_op(op, x, None, op.array, None)


cdef inline Node _node_of_view(TensorCore x, cnp.ndarray array, cnp.ndarray out, Rule rule, tuple saved):
    cdef Node node
    if x._node is None or rule is None:
        return None
    node = record_view(rule, x, out, saved)
    if node is not None and node.recipe is not None:
        node.recipe.remember_view(node, array, out)
    return node


cdef inline TensorCore _wrapped_view(TensorCore x, cnp.ndarray array, cnp.ndarray out, Node node):
    cdef TensorCore y
    if cnp.PyArray_ISWRITEABLE(array) and not cnp.PyArray_ISWRITEABLE(out):
        # NumPy marks expanded views and their views as read-only. Here `begin_write` checks the strides.
        cnp.PyArray_ENABLEFLAGS(out, cnp.NPY_ARRAY_WRITEABLE)
    y = view_of(x, array, out)
    y._node = node
    if node is None and (x._node is not None or x._is_view == WITHOUT_HISTORY) and y._is_view:
        y._is_view = WITHOUT_HISTORY
    return y


cpdef TensorCore over(TensorCore x, cnp.ndarray array, cnp.ndarray out, Rule rule, tuple saved=()):
    """Return a tensor over `out`, which NumPy computed from `array`, the array of `x`: a view or a copy.

    `rule` has the derivative; None records nothing. `saved` are the arguments of the derivative, without
    arrays.
    """
    return _wrapped_view(x, array, out, _node_of_view(x, array, out, rule, saved))


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
    _require_recorded_view(rule, x)
    for other in inputs:
        if isinstance(other, TensorCore):
            other._raise_if_disposed()
            has_history = has_history or other._node is not None
    if has_history and recorder():
        others = relatives(x)
        require_writable_history(name_in_place(rule.name), x, others)
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


def write_plainly(Rule rule not None, TensorCore x not None, write) -> None:
    """Call ``write(array)`` with the array of `x`, for the op of `rule`, without recording."""
    cdef Buffer buffer
    _require_recorded_view(rule, x)
    buffer = begin_write(x)
    cdef cnp.ndarray array = x.stored  # read it now, because another thread may dispose x before the write
    context = enter(True)
    try:
        write(array)
    finally:
        leave(context, True)
        end_write(buffer)


# The value of `_is_view` for a view that was created under ``no_grad`` from a tensor with a history, or from
# such a view.
cdef enum:
    WITHOUT_HISTORY = 2


cdef inline int _require_recorded_view(Rule rule, TensorCore x) except -1:
    """Raise an error if a write to `x` would be missing in the history of the base of `x`."""
    if x._is_view == WITHOUT_HISTORY and x._node is None and recorder():
        raise RuntimeError(f"{name_in_place(rule.name)}: {_NO_GRAD_VIEW}")
    return 0


# --- Views in another shape ---------------------------------------------------------------------------------

cdef enum:
    MAX_SIZES = 16

cdef Rule _RESHAPE = RULES["reshape"]


def reshaped(TensorCore x not None, tuple shape not None, copy):
    """Return `x` reshaped. `shape` has the arguments of a call such as ``f(2, 3)`` or ``f((2, 3))``.

    If `copy` is False, raise an error instead of copying.
    """
    cdef cnp.ndarray array = array_of(x), out
    if array is None:
        x._raise_disposed()
    if len(shape) == 1 and type(shape[0]) is tuple:
        out = _reshaped_at_once(array, <tuple>shape[0])
    else:
        out = _reshaped_at_once(array, shape)
    if out is None:
        out = run_kernel(array.reshape, sizes_for((<object>array).shape, shape))
        if copy is False and not _is_view(out, array):
            _raise_without_view(array, out)
    return over(x, array, out, _RESHAPE)


cdef cnp.ndarray _reshaped_at_once(cnp.ndarray array, tuple sizes):
    """Return a view of a contiguous, non-empty `array` for at most 16 int `sizes` that fit, else None."""
    cdef cnp.npy_intp found[MAX_SIZES]
    cdef cnp.PyArray_Dims shape
    cdef Py_ssize_t i, n, unknown = -1, known = 1, count = cnp.PyArray_SIZE(array)
    cdef int overflow = 0
    shape.ptr = found
    shape.len = <int>len(sizes)
    if len(sizes) > MAX_SIZES or count == 0 or not cnp.PyArray_IS_C_CONTIGUOUS(array):
        return None
    for i in range(shape.len):
        size = sizes[i]
        if type(size) is not int:
            return None
        n = PyLong_AsLongAndOverflow(size, &overflow)
        if n == -1 and overflow == 0 and unknown < 0:
            unknown = i
        elif n < 1 or known > count // n:
            return None
        else:
            known *= n
            found[i] = n
    if unknown >= 0:
        if count % known != 0:
            return None
        found[unknown] = count // known
    elif known != count:
        return None
    return cnp.PyArray_Newshape(array, &shape, cnp.NPY_CORDER)


def _raise_without_view(array, out):
    strides = tuple(n // array.itemsize for n in array.strides)
    raise InvalidArgumentError(
        f"shape {array.shape} with strides {strides} has no view of shape {out.shape}: its "
        "elements are in another order in memory. Use x.reshape(...), which copies if necessary, or "
        "x.contiguous() before"
    )


cdef bint _is_view(cnp.ndarray out, cnp.ndarray array) noexcept:
    """Return whether `out`, which NumPy computed from `array`, is a view of its memory and not a copy."""
    cdef PyObject* base = <PyObject*>cnp.PyArray_BASE(out)
    return base == <PyObject*>array or (base != NULL and base == <PyObject*>cnp.PyArray_BASE(array))


def sizes_for(before, shape):
    """Return the sizes in the arguments `shape` of a call, with -1 replaced by the size that fits."""
    return infer_sizes("reshape", sizes_of("reshape", shape), prod(before), before)


# --- Reductions ---------------------------------------------------------------------------------------------
#
# Run reductions and functions along a dimension on tensors, and explain their errors.

# Fast kernels by op, which need no kernel context. They return None for cases that only NumPy supports.
cdef dict _fast_kernels = {"sum": sum_over, "mean": mean_over, "max": max_over, "min": min_over}


def axis_of(name, axis, ndim):
    """Return `axis` as non-negative numbers, or None for all. A 0-d tensor accepts 0 and -1."""
    if axis is None or (ndim == 0 and axis in (0, -1)):
        return None
    if isinstance(axis, (tuple, list)):
        return dims_of(name, axis, ndim or 1)[:ndim]
    return dim_of(name, axis, ndim)


def reduce(str name, kernel, x, axis, bint keepdims=False, **more):
    """Return ``kernel(array, axis, keepdims, **more)`` for the array of `x`, as a differentiable tensor."""
    cdef cnp.ndarray array
    cdef Py_ssize_t dim, ndim
    cdef TensorCore given
    cdef _Reduction op
    if not is_tensor(x):
        x = as_tensor(x)
    given = <TensorCore>x
    array = array_of(given)
    if array is None:
        given._raise_disposed()
    if axis is not None:
        ndim = cnp.PyArray_NDIM(array)
        if type(axis) is int and -ndim <= axis < ndim:
            dim = axis
            axis = dim if dim >= 0 else dim + ndim
        else:
            axis = axis_of(name, axis, ndim)
    if more.get("dtype") is not None and (is_bfloat16(array) or more["dtype"].kind == "V"):
        # Compute in the given dtype, or in float32 for bfloat16.
        given = x = x.to(more["dtype"])
        array = array_of(given)
        if is_inexact(array):
            more["dtype"] = None
    op = _Reduction.__new__(_Reduction)
    op.name = name
    op.kernel = wide_for(kernel, (array,))
    op.fast_kernel = _fast_kernels.get(name) if more.get("dtype") is None else None
    op.axis = axis
    op.keepdims = keepdims
    op.options = more
    return run_op(op, given, None, array, None)


@cython.final
cdef class _Reduction(Op):
    """One call of a reduction. A budget calls it to compute the result again."""

    # The name of the rule, which is looked up only to record.
    cdef str name
    # A kernel that needs no kernel context, and returns None for cases that only NumPy supports; or None.
    cdef object fast_kernel
    cdef object axis
    cdef bint keepdims
    cdef dict options

    cdef object computed(self, object a, object b):
        out = None if self.fast_kernel is None else self.fast_kernel(a, self.axis, self.keepdims)
        if out is None:
            out = _as_array(run_kernel(self.kernel, a, self.axis, self.keepdims, **self.options))
        return out

    cdef object explained(self, object error, object a, object b):
        if isinstance(error, (MemoryError, OverflowError)):
            return _error_of(self.name, error, (a,))
        return failed(self.name, error, a)

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        cdef Node node
        if (<TensorCore>x1)._node is None:
            return None
        parameters = {**self.options, "shape": a.shape, "axis": self.axis, "keepdims": self.keepdims}
        node = record(RULES[self.name], (x1,), out, parameters)
        if node is not None and node.recipe is not None:
            remember(node, self, (x1,))
        return node

    def __call__(self, array):
        out = None if self.fast_kernel is None else self.fast_kernel(array, self.axis, self.keepdims)
        return self.kernel(array, self.axis, self.keepdims, **self.options) if out is None else out


def along(str name, kernel, x, axis):
    """Return ``kernel(array, axis)`` for the array of `x`, in the shape of `x`. A 0-d `x` counts as a vector.

    The third argument of `kernel` is `out`, for donated memory of the result's dtype, as in ``apply_into``.
    """
    cdef TensorCore given
    cdef cnp.ndarray array
    cdef Py_ssize_t ndim
    cdef _Along op
    if not is_tensor(x):
        x = as_tensor(x)
    given = <TensorCore>x
    array = array_of(given)
    if array is None:
        given._raise_disposed()
    ndim = cnp.PyArray_NDIM(array)
    if type(axis) is int and 0 <= axis < ndim:
        dim = axis
    else:
        dim = axis_of(name, axis, ndim)
    kernel = wide_for(kernel, (array,))
    if given.is_donated and dim is not None:
        return _along_over(name, kernel, given, dim)
    op = _Along.__new__(_Along)
    op.name = name
    op.kernel = kernel
    op.axis = dim
    return run_op(op, given, None, array, None)


@cython.final
cdef class _Along(Op):
    """One call of a function along a dimension."""

    cdef str name
    # The dimension, or None for an array without dimensions.
    cdef object axis

    cdef object computed(self, object a, object b):
        if self.axis is not None:
            return run_kernel(self.kernel, a, self.axis)
        return run_kernel(self.kernel, a.reshape(1), 0).reshape(())

    cdef object explained(self, object error, object a, object b):
        return _error_of(self.name, error, (a,))

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        if (<TensorCore>x1)._node is None:
            return None
        return record(RULES[self.name], (x1,), out, {"axis": self.axis})


# A separate function, because a closure inside `along` would make each call allocate an object.
def _along_over(name, kernel, x, dim):
    return apply_into(RULES[name], lambda a, out: kernel(a, dim, out), (x,), axis=dim)


def failed(name, error, array):
    """Return the exception to raise for `error` of a reduction of `array`."""
    if array.size == 0 and isinstance(error, ValueError):
        return ValueError(
            f"{name} of {array.dtype}{list(array.shape)}: there are no elements to choose from. Reduce "
            "another dimension, or check x.numel() first"
        )
    return explain(name, error, (array,))


# --- Affine maps --------------------------------------------------------------------------------------------
#
# Affine maps as recorded ops, for ``nn.functional.linear``.

cdef Rule _RELU = RULES["relu"]
# The kernels of activations that an affine map can compute in the same pass, by the names of their rules.
cdef dict _KERNELS = {
    "gelu": kernels.gelu,
    "gelu_by_tanh": kernels.gelu_by_tanh,
    "sigmoid": kernels.sigmoid,
    "silu": kernels.silu,
    "tanh": kernels.tanh,
}


def apply_affine(Rule rule not None, x, weight, bias) -> TensorCore:
    """Return ``x @ weight.T + bias`` of tensors, as an op with the derivatives of `rule`. `bias` may be None.

    If `weight` has one dimension, the result lacks the last dimension.
    """
    return _run_affine(rule, x, weight, bias, None)


def apply_affine_then(Rule rule not None, str activation not None, x, weight, bias):
    """Return ``activation(x @ weight.T + bias)``, computed in one pass. Record both ops.

    `activation` is "relu", "gelu", "gelu_by_tanh", "sigmoid", "silu" or "tanh". Return None if one pass is
    not possible for these tensors.
    """
    return _run_affine(rule, x, weight, bias, activation)


cdef TensorCore _run_affine(Rule rule, object x, object weight, object bias, str activation):
    cdef cnp.ndarray a = _array_of("input", x), w = _array_of("weight", weight)
    cdef object b = None if bias is None else _array_of("bias", bias)
    cdef _Affine op
    if is_bfloat16(a) or is_bfloat16(w) or is_bfloat16(b):
        return None if activation is not None else _run_narrow(rule, x, weight, bias, w)
    if is_inexact(a) != is_inexact(w):
        # As in other ops, integers beside floats are cast to the dtype of the floats.
        if is_inexact(a):
            return _run_affine(rule, x, weight.to((<object>a).dtype), bias, activation)
        return _run_affine(rule, x.to((<object>w).dtype), weight, bias, activation)
    if cnp.PyArray_NDIM(w) == 1:
        return _of_one_output(rule, x, weight, bias) if activation is None else None
    op = _Affine.__new__(_Affine)
    op.rule = rule
    op.inputs = (x, weight) if bias is None else (x, weight, bias)
    op.bias = b
    op.activation = activation
    op.last = None if activation is None else _RELU if activation == "relu" else RULES[activation]
    return run_op(op, x, weight, a, w)


@cython.final
cdef class _Affine(Op):
    """One call of an affine map, and of the activation after it, which is recorded as an op of its own."""

    cdef tuple inputs
    # The array of the bias, or None.
    cdef object bias
    # The name and the rule of the activation, or None.
    cdef str activation
    cdef Rule last
    # The input of the activation, if its derivative needs it.
    cdef cnp.ndarray before

    cdef object computed(self, object a, object b):
        cdef bint keeps
        context = enter(True)
        try:
            if self.last is None or self.last is _RELU:
                return affine(a, b, self.bias, self.last is not None)
            keeps = _is_recorded(self.inputs) and 0 in self.last.plan((True,)).saves
            found = affine_then(a, b, self.bias, _KERNELS[self.activation], keeps)
            if found is None:
                return None
            self.before, out = found
            return out
        finally:
            leave(context, True)

    cdef object explained(self, object error, object a, object b):
        return _error_of("linear", error, [a, b] if self.bias is None else [a, b, self.bias])

    cdef Node recorded(self, object x1, object x2, object a, object b, cnp.ndarray out):
        cdef Node node = record(self.rule, self.inputs, out, {})
        if node is not None and node.recipe is not None:
            remember(node, partial(_map_again, self.activation), self.inputs)
        if self.last is None:
            return node
        node = record_after(self.last, node, self.before, out)
        if node is not None and node.recipe is not None:
            if self.last is _RELU:
                node.recipe.remember_like(node.next[0].recipe, _rectified_again)
            else:
                node.recipe.remember_after(node.next[0].recipe, _KERNELS[self.activation], node)
        return node


cdef TensorCore _run_narrow(Rule rule, object x, object weight, object bias, cnp.ndarray w):
    """Return the affine map for tensors of which some are bfloat16."""
    if cnp.PyArray_NDIM(w) == 1:
        return _of_one_output(rule, x, weight, bias)
    return apply(rule, partial(_map_again, None), (x, weight) if bias is None else (x, weight, bias))


def _map_again(str activation, cnp.ndarray a, cnp.ndarray w, b=None):
    """Compute the affine map again with the same kernel, so that the result has the same bits."""
    if activation is None or activation == "relu":
        return affine(a, w, b, False)
    return affine_then(a, w, b, _KERNELS[activation], True)[0]


def _rectified_again(cnp.ndarray a, cnp.ndarray w, b=None):
    return affine(a, w, b, True)


cdef TensorCore _of_one_output(Rule rule, object x, object weight, object bias):
    if bias is not None and bias.ndim != 0:
        raise InvalidArgumentError(
            f"linear: beside a weight of one dimension the bias has none, shape (), not {bias.shape}"
        )
    row = None if bias is None else bias.reshape(1)
    return _run_affine(rule, x, weight.unsqueeze(0), row, None).squeeze(-1)


cdef bint _is_recorded(tuple inputs) except -1:
    for x in inputs:
        if (<TensorCore>x)._node is not None:
            return bool(recorder())
    return False


cdef cnp.ndarray _array_of(str what, object x):
    if not is_tensor(x):
        raise TypeError(
            f"linear: {what} must be a tensor, not {type(x).__name__}: write tensor.tensor({what})"
        )
    cdef cnp.ndarray array = array_of(<TensorCore>x)
    if array is None:
        (<TensorCore>x)._raise_disposed()
    return array
