"""Python's operators and ``x[key]`` on tensors, with promotion (`tensor.core.promotion`) and broadcasting."""

cimport cython
cimport numpy as cnp

from tensor.core.tensor cimport TensorCore, array_of
from tensor.ops.dispatch cimport BinaryOp, UnaryOp, over
from tensor.tape.recording cimport Rule

from scopes._shared.tracebacks import clear_library_frames
from tensor.ops import elementwise, linalg  # no-cython-lint: imported because they add entries to OPS
from tensor.ops.table import OPS
from tensor.tape.rules import RULES

cnp.import_array()

cdef BinaryOp _add = OPS["add"]
cdef BinaryOp _subtract = OPS["subtract"]
cdef BinaryOp _multiply = OPS["multiply"]
cdef BinaryOp _divide = OPS["divide"]
cdef BinaryOp _floor_divide = OPS["floor_divide"]
cdef BinaryOp _remainder = OPS["remainder"]
cdef BinaryOp _pow = OPS["pow"]
cdef BinaryOp _matmul = OPS["matmul"]
cdef BinaryOp _bitwise_and = OPS["bitwise_and"]
cdef BinaryOp _bitwise_or = OPS["bitwise_or"]
cdef BinaryOp _bitwise_xor = OPS["bitwise_xor"]
cdef BinaryOp _bitwise_left_shift = OPS["bitwise_left_shift"]
cdef BinaryOp _bitwise_right_shift = OPS["bitwise_right_shift"]
cdef BinaryOp _equal = OPS["equal"]
cdef BinaryOp _not_equal = OPS["not_equal"]
cdef BinaryOp _less = OPS["less"]
cdef BinaryOp _less_equal = OPS["less_equal"]
cdef BinaryOp _greater = OPS["greater"]
cdef BinaryOp _greater_equal = OPS["greater_equal"]
cdef UnaryOp _negative = OPS["negative"]
cdef UnaryOp _positive = OPS["positive"]
cdef UnaryOp _abs = OPS["abs"]
cdef UnaryOp _bitwise_invert = OPS["bitwise_invert"]
cdef Rule _GETITEM = RULES["getitem"]


# As in the C API, a binary operator gets both operands in order, and either one may be the tensor.
@cython.c_api_binop_methods(True)
cdef class Operators(TensorCore):
    """Python's operators."""

    def __add__(x1, x2):
        return _add.run(x1, x2, True)

    def __sub__(x1, x2):
        return _subtract.run(x1, x2, True)

    def __mul__(x1, x2):
        return _multiply.run(x1, x2, True)

    def __truediv__(x1, x2):
        return _divide.run(x1, x2, True)

    def __floordiv__(x1, x2):
        return _floor_divide.run(x1, x2, True)

    def __mod__(x1, x2):
        return _remainder.run(x1, x2, True)

    def __pow__(x1, x2, modulus):
        return _pow.run(x1, x2, True) if modulus is None else NotImplemented

    def __matmul__(x1, x2):
        return _matmul.run(x1, x2, True)

    def __and__(x1, x2):
        return _bitwise_and.run(x1, x2, True)

    def __or__(x1, x2):
        return _bitwise_or.run(x1, x2, True)

    def __xor__(x1, x2):
        return _bitwise_xor.run(x1, x2, True)

    def __lshift__(x1, x2):
        return _bitwise_left_shift.run(x1, x2, True)

    def __rshift__(x1, x2):
        return _bitwise_right_shift.run(x1, x2, True)

    def __eq__(self, other):
        return _equal.run(self, other, True)

    def __ne__(self, other):
        return _not_equal.run(self, other, True)

    def __lt__(self, other):
        return _less.run(self, other, True)

    def __le__(self, other):
        return _less_equal.run(self, other, True)

    def __gt__(self, other):
        return _greater.run(self, other, True)

    def __ge__(self, other):
        return _greater_equal.run(self, other, True)

    def __neg__(self):
        return _negative.run(self)

    def __pos__(self):
        return _positive.run(self)

    def __abs__(self):
        return _abs.run(self)

    def __invert__(self):
        return _bitwise_invert.run(self)

    def __hash__(self):
        return object.__hash__(self)

    def __getitem__(self, key):
        """Return the elements at `key`: a view for integers, slices, None and ``...``, else a copy.

        `key` may have integers, slices, None, ``...``, boolean masks, and integer tensors, arrays and lists.
        As in PyTorch, integers, slices and None are applied first, so ``x[0, :, [1, 2]]`` is
        ``x[0][:, [1, 2]]``. NumPy would put the dimension of the list first.

        Raises
        ------
        IndexError
            If an index is out of range, there are too many indices, or a mask does not fit.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([[1, 2, 3], [4, 5, 6]])
        >>> x[1, :2].tolist(), x[:, [0, 2]].tolist(), x[x > 4].tolist()
        ([4, 5], [[1, 3], [4, 6]], [5, 6])
        """
        cdef cnp.ndarray array
        if type(key) is not int and not (type(key) is slice and _is_plain(key)):
            return _indexed(self, key)
        array = array_of(self)
        if array is None:
            self._raise_disposed()
        if type(key) is int and cnp.PyArray_NDIM(array) > 1:
            if not -cnp.PyArray_DIM(array, 0) <= key < cnp.PyArray_DIM(array, 0):
                return _indexed(self, key)  # raises the error
            return over(self, array, array[key], _GETITEM, ((key, ...),) if self._node is not None else ())
        if cnp.PyArray_NDIM(array) == 0:
            return _indexed(self, key)
        try:
            # With an ellipsis, NumPy returns an array without dimensions instead of a scalar.
            out = array[key, ...]
        except IndexError:
            return _indexed(self, key)
        return over(self, array, out, _GETITEM, ((key, ...),) if self._node is not None else ())


cdef object _indexed(x, key):
    try:
        return x._index(key)
    except BaseException as error:
        clear_library_frames(error)  # so that a stored error does not keep `x` alive
        raise


cdef inline bint _is_plain(slice key):
    return _is_bound(key.start) and _is_bound(key.stop) and _is_bound(key.step)


cdef inline bint _is_bound(object x):
    return x is None or type(x) is int
