"""Python's operators on tensors: elementwise, with NumPy's promotion and broadcasting; and ``x[key]``."""

cimport cython
cimport numpy as cnp

from tensor.core.tensor cimport TensorCore
from tensor.ops.dispatch cimport BinaryOp, UnaryOp, over
from tensor.tape.nodes cimport Rule

from tensor.ops import linalg  # which enters the matrix product
from tensor.ops.elementwise import OPS
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


cdef class Operators(TensorCore):
    """Python's operators."""

    def __add__(self, other):
        return _add.run(self, other, True)

    def __radd__(self, other):
        return _add.run(other, self, True)

    def __sub__(self, other):
        return _subtract.run(self, other, True)

    def __rsub__(self, other):
        return _subtract.run(other, self, True)

    def __mul__(self, other):
        return _multiply.run(self, other, True)

    def __rmul__(self, other):
        return _multiply.run(other, self, True)

    def __truediv__(self, other):
        return _divide.run(self, other, True)

    def __rtruediv__(self, other):
        return _divide.run(other, self, True)

    def __floordiv__(self, other):
        return _floor_divide.run(self, other, True)

    def __rfloordiv__(self, other):
        return _floor_divide.run(other, self, True)

    def __mod__(self, other):
        return _remainder.run(self, other, True)

    def __rmod__(self, other):
        return _remainder.run(other, self, True)

    def __pow__(self, other, modulus):
        if modulus is not None:
            return NotImplemented
        return _pow.run(self, other, True)

    def __rpow__(self, other, modulus):
        if modulus is not None:
            return NotImplemented
        return _pow.run(other, self, True)

    def __matmul__(self, other):
        return _matmul.run(self, other, True)

    def __rmatmul__(self, other):
        return _matmul.run(other, self, True)

    def __and__(self, other):
        return _bitwise_and.run(self, other, True)

    def __rand__(self, other):
        return _bitwise_and.run(other, self, True)

    def __or__(self, other):
        return _bitwise_or.run(self, other, True)

    def __ror__(self, other):
        return _bitwise_or.run(other, self, True)

    def __xor__(self, other):
        return _bitwise_xor.run(self, other, True)

    def __rxor__(self, other):
        return _bitwise_xor.run(other, self, True)

    def __lshift__(self, other):
        return _bitwise_left_shift.run(self, other, True)

    def __rlshift__(self, other):
        return _bitwise_left_shift.run(other, self, True)

    def __rshift__(self, other):
        return _bitwise_right_shift.run(self, other, True)

    def __rrshift__(self, other):
        return _bitwise_right_shift.run(other, self, True)

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
        """Return the elements that `key` names: a view for integers, slices, None and ``...``, else a copy.

        `key` may hold integers, slices, None, ``...``, and boolean masks and integer tensors, arrays and
        lists, mixed as NumPy mixes them.

        Raises
        ------
        IndexError
            If an index is out of range, there are too many, or a mask does not fit.

        Examples
        --------
        >>> import tensor
        >>> x = tensor.tensor([[1, 2, 3], [4, 5, 6]])
        >>> x[1, :2].tolist(), x[:, [0, 2]].tolist(), x[x > 4].tolist()
        ([4, 5], [[1, 3], [4, 6]], [5, 6])
        """
        cdef cnp.ndarray array
        if type(key) is not int and not (type(key) is slice and _is_plain(key)):
            return self._index(key)
        array = self.array
        if array is None:
            self._raise_disposed()
        if type(key) is int and cnp.PyArray_NDIM(array) > 1:
            if not -cnp.PyArray_DIM(array, 0) <= key < cnp.PyArray_DIM(array, 0):
                return self._index(key)  # which explains
            return over(self, array[key], _GETITEM, ((key, ...),) if self._node is not None else ())
        if cnp.PyArray_NDIM(array) == 0:
            return self._index(key)
        try:
            # With an ellipsis NumPy gives an array without dimensions where it would give a scalar.
            out = array[key, ...]
        except IndexError:
            return self._index(key)
        return over(self, out, _GETITEM, ((key, ...),) if self._node is not None else ())


cdef inline bint _is_plain(slice key):
    return _is_bound(key.start) and _is_bound(key.stop) and _is_bound(key.step)


cdef inline bint _is_bound(object x):
    return x is None or type(x) is int
