"""The dtypes that kernels compute with: promotion of operands, and bfloat16 as float32."""

cimport numpy as cnp
from libc.stdint cimport uint16_t, uint32_t
from libc.string cimport memcpy

from tensor.memory.buffer cimport empty

import numpy as np

from tensor import _dtypes

cnp.import_array()


# --- bfloat16 -----------------------------------------------------------------------------------------------
#
# Arrays of bfloat16: stored in 16 bits, computed in float32.
#
# The package ml_dtypes adds the dtype to NumPy. Kernels get float32 arrays. Their results are rounded once to
# bfloat16: to nearest, ties to even, as in PyTorch on a CPU.

cdef object _float32 = np.dtype(np.float32)


cdef void _widen(const uint16_t* x, uint32_t* out, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(count):
        out[i] = <uint32_t>x[i] << 16  # the upper half of a float32


cdef void _narrow(const uint32_t* x, uint16_t* out, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t i
    cdef uint32_t bits, rounded
    for i in range(count):
        bits = x[i]
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        # Rounding would turn some nans into infinity or 0.
        out[i] = <uint16_t>(0x7FC0 if (bits & 0x7FFFFFFF) > 0x7F800000 else rounded)


cdef object widened(object x):
    cdef cnp.ndarray given, out
    cdef Py_ssize_t count
    if not is_bfloat16(x):
        return x
    given = <cnp.ndarray>x
    if not cnp.PyArray_IS_C_CONTIGUOUS(given) or not cnp.PyArray_ISBEHAVED_RO(given):
        return (<object>given).astype(_float32)
    out = empty((<object>given).shape, _float32)
    count = cnp.PyArray_SIZE(given)
    with nogil:
        _widen(<const uint16_t*>cnp.PyArray_DATA(given), <uint32_t*>cnp.PyArray_DATA(out), count)
    return out


cdef cnp.ndarray narrowed(cnp.ndarray x, object dtype):
    cdef cnp.ndarray out
    cdef Py_ssize_t count
    if not cnp.PyArray_IS_C_CONTIGUOUS(x) or not cnp.PyArray_ISBEHAVED_RO(x):
        x = np.ascontiguousarray(x).reshape((<object>x).shape)
    out = empty((<object>x).shape, dtype)
    count = cnp.PyArray_SIZE(x)
    with nogil:
        _narrow(<const uint32_t*>cnp.PyArray_DATA(x), <uint16_t*>cnp.PyArray_DATA(out), count)
    return out


cdef object narrowed_result(object x, object dtype):
    if isinstance(x, tuple):
        parts = []
        for part in x:
            parts.append(narrowed_result(part, dtype))
        return tuple(parts)
    if isinstance(x, np.generic):
        x = np.asarray(x)
    if isinstance(x, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT:
        return narrowed(<cnp.ndarray>x, dtype)
    return x


cdef class Wide:
    """Wrapper of a kernel: converts bfloat16 arrays to float32, and float32 results to bfloat16."""

    cdef object kernel

    def __init__(self, kernel):
        self.kernel = kernel

    def __call__(self, *operands, **options):
        cdef list wide = []
        dtype = None
        for x in operands:
            if is_bfloat16(x):
                dtype = (<object>x).dtype
            wide.append(widened(x))
        result = self.kernel(*wide, **options)
        return result if dtype is None else narrowed_result(result, dtype)


# The next number after another depends on the precision: ml_dtypes has a loop of this ufunc for bfloat16.
cdef object _nextafter = np.nextafter


cdef object wide_for(object kernel, operands):
    if kernel is _nextafter:
        return kernel
    for x in operands:
        if is_bfloat16(x):
            return Wide(kernel)
    return kernel


cdef object rounded(object x):
    cdef float number
    cdef uint32_t bits
    cdef uint16_t upper
    if type(x) is not float and type(x) is not int:
        return x
    try:
        number = <float><double>x
    except OverflowError:
        return x  # the kernel raises a better error
    memcpy(&bits, &number, sizeof(number))
    _narrow(&bits, &upper, 1)
    _widen(&upper, &bits, 1)
    memcpy(&number, &bits, sizeof(number))
    return <double>number


def widen(x):
    """Return `x` as float32 if it is bfloat16, else `x` itself."""
    return widened(x)


def narrow(cnp.ndarray x not None, dtype):
    """Return the array `x` as float32 rounded to bfloat16 (`dtype`): to nearest, ties to even."""
    return narrowed(x if cnp.PyArray_TYPE(x) == cnp.NPY_FLOAT else (<object>x).astype(_float32), dtype)


def write_wide(write, cnp.ndarray array not None, *others) -> None:
    """Call ``write(array, *others)``. If `array` is bfloat16, write to a float32 copy and round that."""
    if not is_bfloat16(array):
        write(array, *others)
        return
    wide = widened(array)
    write(wide, *map(widened, others))
    array[...] = wide


def in_float32(kernel, *operands):
    """Return ``kernel(*operands)``. With bfloat16 operands, compute in float32 and round once."""
    return wide_for(kernel, operands)(*operands)


def with_numbers(kernel, *operands):
    """Return ``kernel(*operands)``. With float16 operands, compute in float32 and round once, as in PyTorch.

    For kernels with numbers, such as a slope, which float16 may round to 0 or infinity.
    """
    cdef bint is_half = False
    cdef list wide = []
    for x in operands:
        if isinstance(x, cnp.ndarray) and cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_FLOAT16:
            is_half = True
            x = x.astype(_float32)
        elif isinstance(x, cnp.ndarray) and is_inexact(<cnp.ndarray>x):
            return kernel(*operands)
        wide.append(x)
    return np.asarray(kernel(*wide)).astype(np.float16) if is_half else kernel(*operands)


# --- Promotion ----------------------------------------------------------------------------------------------
#
# Promotion: the common dtype to which an op casts its operands.
#
# In NumPy, float32 with int64, Python's 2.5 with integers, and roots of integers give float64. Here the
# result has the dtype of the operand of the higher kind (`tensor._dtypes.result_dtype`). Integers that must
# become floats become float32. If NumPy's rules give another dtype, operands are cast before NumPy gets
# them.

cdef tuple _WITH_DTYPE = (np.ndarray, np.generic)
cdef tuple _NUMBERS = (bool, int, float, complex)
# NumPy's reciprocal of an integer above 1 is 0.
cdef object _reciprocal = np.reciprocal
# The operands of the calls that find out how a kernel promotes.
cdef object _NO_FLOATS = np.empty(0)
cdef object _NO_INTEGERS = np.empty(0, np.int64)


cdef Promotion promotion_of(object kernel, int count):
    """Return how to promote the operands of `kernel`, by calling it with `count` empty arrays."""
    if kernel is _reciprocal:
        return TO_FLOATS
    try:
        of_floats = kernel(*[_NO_FLOATS] * count)
    except TypeError:
        return BY_NUMPY
    if of_floats.dtype.kind == "b":
        return BY_NUMPY
    return TO_FLOATS if kernel(*[_NO_INTEGERS] * count).dtype.kind == "f" else BY_KIND


cdef inline bint _is_double(cnp.ndarray x) noexcept:
    return cnp.PyArray_TYPE(x) == cnp.NPY_DOUBLE or cnp.PyArray_TYPE(x) == cnp.NPY_CDOUBLE


cdef bint needs_floats(Promotion promotion, cnp.ndarray x) noexcept:
    return promotion == TO_FLOATS and not is_inexact(x)


cdef inline bint _differ_from_numpy(Promotion promotion, cnp.ndarray a, cnp.ndarray b) noexcept:
    if is_inexact(a):
        # NumPy's result has the same dtype for bools, and if `a` is a double.
        return not is_inexact(b) and not cnp.PyArray_ISBOOL(b) and not _is_double(a)
    if is_inexact(b):
        return not cnp.PyArray_ISBOOL(a) and not _is_double(b)
    if promotion == TO_FLOATS:
        return True
    # uint64 and signed integers have no common integer dtype.
    if cnp.PyArray_ISUNSIGNED(a):
        return cnp.PyArray_ITEMSIZE(a) == 8 and cnp.PyArray_ISSIGNED(b) and not cnp.PyArray_ISBOOL(b)
    return (
        cnp.PyArray_ISUNSIGNED(b)
        and cnp.PyArray_ITEMSIZE(b) == 8
        and cnp.PyArray_ISSIGNED(a)
        and not cnp.PyArray_ISBOOL(a)
    )


cdef inline bint _differs_beside_number(Promotion promotion, cnp.ndarray x, object number) noexcept:
    if is_inexact(x):
        return False
    return promotion == TO_FLOATS or isinstance(number, (float, complex))


cdef bint needs_promotion(Promotion promotion, object a, object b) noexcept:
    if promotion == BY_NUMPY:
        return False
    if not isinstance(a, cnp.ndarray):
        return isinstance(b, cnp.ndarray) and _differs_beside_number(promotion, <cnp.ndarray>b, a)
    if not isinstance(b, cnp.ndarray):
        return _differs_beside_number(promotion, <cnp.ndarray>a, b)
    if cnp.PyArray_TYPE(<cnp.ndarray>a) == cnp.PyArray_TYPE(<cnp.ndarray>b):
        return needs_floats(promotion, <cnp.ndarray>a)
    return _differ_from_numpy(promotion, <cnp.ndarray>a, <cnp.ndarray>b)


cdef tuple promoted_pair(Promotion promotion, object a, object b):
    dtype = _dtypes.result_dtype((_kind(a), _kind(b)))
    if promotion == TO_FLOATS and dtype.kind in "biu":
        dtype = _dtypes.float32
    return _cast(a, dtype), _cast(b, dtype)


cdef object _kind(object x):
    """Return the dtype of an array or NumPy scalar, or the type of a Python number."""
    if isinstance(x, _WITH_DTYPE):  # check this first, because np.float64 is a subclass of float
        return x.dtype
    for kind in _NUMBERS:
        if isinstance(x, kind):
            return kind
    raise TypeError(f"{type(x).__name__} is not a number")


cdef inline object _cast(object x, object dtype):
    # Do not cast floats, because NumPy widens them in small blocks during the operation.
    return x.astype(dtype) if isinstance(x, cnp.ndarray) and not is_inexact(<cnp.ndarray>x) else x


def as_floats(cnp.ndarray x not None):
    """Return `x`, cast to float32 if it has integers or bools."""
    return x if is_inexact(x) else x.astype(_dtypes.float32)


# The promotion of each kernel, for `promoted_for`.
cdef dict _promotions = {}


def promoted_for(kernel, operands):
    """Return the one or two operands of `kernel`, promoted as it requires."""
    cdef Promotion promotion
    found = _promotions.get(kernel)
    if found is None:
        found = _promotions[kernel] = <int>promotion_of(kernel, <int>len(operands))
    promotion = <Promotion><int>found
    if len(operands) == 1:
        return (as_floats(operands[0]),) if needs_floats(promotion, operands[0]) else operands
    a, b = operands
    return promoted_pair(promotion, a, b) if needs_promotion(promotion, a, b) else operands


def promoted(operands):
    """Return `operands`, arrays and Python numbers, with integers and bools cast to the result dtype."""
    cdef list found = []
    cdef list kinds = []
    cdef bint is_mixed = False
    for x in operands:
        kind = _kind(x)
        found.append(x)
        kinds.append(kind)
        is_mixed = is_mixed or kind is not kinds[0]
    if is_mixed:
        dtype = _dtypes.result_dtype(kinds)
        for i in range(len(found)):
            found[i] = _cast(found[i], dtype)
    return found
