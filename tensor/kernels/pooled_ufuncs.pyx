"""NumPy's own loops on the pool: ufuncs of large contiguous arrays, for what no kernel of ours is compiled.

A ufunc holds a loop in C for each combination of dtypes (``functions``, ``data`` and ``types`` of NumPy's
``PyUFuncObject``), which needs no interpreter. NumPy runs it over the whole of its arrays on one thread; here
it runs over pieces. What a loop of an element computes does not depend on its neighbours.
"""

cimport cython
cimport numpy as cnp

from tensor.kernels.threads cimport parallel_for

import numpy as np

cnp.import_array()
cnp.import_ufunc()

cdef extern from "<fenv.h>" nogil:
    int FE_ALL_EXCEPT
    int feclearexcept(int) noexcept

# Bytes of an operand from which on a second thread pays, and in one piece.
cdef Py_ssize_t _LARGE = 1 << 17
cdef Py_ssize_t _PIECE = 1 << 15


# NumPy's declaration, and that those of numbers need no interpreter.
ctypedef void (*NumberLoop)(char**, const cnp.npy_intp*, const cnp.npy_intp*, void*) noexcept nogil


cdef struct Work:
    NumberLoop loop
    void* data
    int count
    char* starts[4]
    cnp.npy_intp steps[4]


cdef void _run(void* context, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    cdef Work* work = <Work*> context
    cdef char* places[4]
    cdef cnp.npy_intp size = end - start
    cdef int i
    for i in range(work.count):
        places[i] = work.starts[i] + start * work.steps[i]
    work.loop(places, &size, work.steps, work.data)
    feclearexcept(FE_ALL_EXCEPT)  # of a worker nobody else would; kernels are silent


@cython.final
cdef class PooledUfunc:
    """A ufunc that runs on the pool where operands are large: ``f(a, b)`` and ``f(a, b, out=out)``.

    >>> import numpy as np
    >>> bool(np.all(PooledUfunc(np.sin)(np.ones(100_000)) == np.sin(1.0)))
    True
    """

    cdef cnp.ufunc _ufunc
    cdef bint _is_elementwise
    # The dtypes of a loop, by those of the operands, as `resolve_dtypes` tells; None where it tells none.
    cdef dict _dtypes

    cdef Py_ssize_t _least_bytes
    cdef Py_ssize_t _bytes_in_piece

    def __init__(
        self,
        cnp.ufunc ufunc not None,
        *,
        Py_ssize_t least_bytes=_LARGE,
        Py_ssize_t bytes_in_piece=_PIECE,
    ):
        self._ufunc = ufunc
        self._least_bytes = least_bytes
        self._bytes_in_piece = bytes_in_piece
        # From 2.5 on NumPy keeps its loops elsewhere: there it computes by itself, on one thread.
        self._is_elementwise = (
            np.lib.NumpyVersion(np.__version__) < "2.5.0"
            and ufunc.signature is None
            and ufunc.nout == 1
            and ufunc.nin in (1, 2)
        )
        self._dtypes = {}

    def __call__(self, *operands, out=None):
        result = self._on_pool(operands, out) if self._is_elementwise else None
        if result is not None:
            return result
        return self._ufunc(*operands) if out is None else self._ufunc(*operands, out=out)

    cdef cnp.ndarray _on_pool(self, tuple operands, cnp.ndarray out):
        """Return the result; None for what NumPy shall do."""
        cdef Work work
        cdef cnp.ndarray first = None
        cdef cnp.ndarray array
        cdef Py_ssize_t grain, nbytes = 0
        cdef int i, place
        for x in operands:
            if type(x) is cnp.ndarray:
                nbytes = max(nbytes, cnp.PyArray_NBYTES(<cnp.ndarray> x))
                if first is None and cnp.PyArray_NDIM(<cnp.ndarray> x) != 0:
                    first = x
        if nbytes < self._least_bytes or first is None or len(operands) != self._ufunc.nin:
            return None
        dtypes = self._dtypes_for(operands)
        if dtypes is None:
            return None
        place = _loop_of(self._ufunc, dtypes)
        if place < 0:
            return None
        work.loop = <NumberLoop> <void*> self._ufunc.functions[place]
        work.data = self._ufunc.data[place]
        work.count = self._ufunc.nargs
        held = []
        for i in range(self._ufunc.nin):
            x = operands[i]
            if type(x) is not cnp.ndarray:
                try:
                    x = np.asarray(x, dtypes[i])
                except (OverflowError, TypeError, ValueError):
                    return None  # NumPy says it better
            array = x
            held.append(array)
            if cnp.PyArray_TYPE(array) != dtypes[i].num or not cnp.PyArray_ISBEHAVED_RO(array):
                return None
            work.starts[i] = cnp.PyArray_BYTES(array)
            work.steps[i] = 0
            if cnp.PyArray_NDIM(array) != 0:
                if not _is_alike(array, first):
                    return None
                work.steps[i] = cnp.PyArray_ITEMSIZE(array)
        if out is None:
            out = np.empty_like(first, dtypes[work.count - 1])
        elif (
            cnp.PyArray_TYPE(out) != dtypes[work.count - 1].num
            or not cnp.PyArray_ISBEHAVED(out)
            or not _is_alike(out, first)
        ):
            return None
        for array in held:
            if not _is_apart(out, array):
                return None
        work.starts[work.count - 1] = cnp.PyArray_BYTES(out)
        work.steps[work.count - 1] = cnp.PyArray_ITEMSIZE(out)
        grain = max(self._bytes_in_piece // cnp.PyArray_ITEMSIZE(first), 1)
        with nogil:  # no loop of numbers touches Python, and `held` and `out` keep the memory
            parallel_for(cnp.PyArray_SIZE(out), grain, _run, &work)
        return out

    cdef tuple _dtypes_for(self, tuple operands):
        kinds = []
        for x in operands:
            kinds.append((<cnp.ndarray> x).dtype if type(x) is cnp.ndarray else type(x))
        key = tuple(kinds)
        if key not in self._dtypes:
            given = []
            for kind in kinds:
                given.append(np.dtype(np.bool_) if kind is bool else kind)
            try:
                found = self._ufunc.resolve_dtypes((*given, None))
            except TypeError:
                found = None
            if found is not None and not _are_numbers(found):
                found = None
            self._dtypes[key] = found
        return self._dtypes[key]


cdef bint _are_numbers(tuple dtypes):
    for dtype in dtypes:
        if dtype.kind not in "biufc" or not dtype.isnative:
            return False
    return True


cdef int _loop_of(cnp.ufunc ufunc, tuple dtypes) except -2:
    """Return the number of the loop for just these dtypes; -1 if there is none."""
    cdef int i, j, nargs = ufunc.nargs
    for i in range(ufunc.ntypes):
        for j in range(nargs):
            if ufunc.types[i * nargs + j] != dtypes[j].num:
                break
        else:
            return i if ufunc.functions[i] != NULL else -1
    return -1


cdef bint _is_alike(cnp.ndarray x, cnp.ndarray y) noexcept:
    """Whether both are contiguous, of one shape, in the same order."""
    return cnp.PyArray_SAMESHAPE(x, y) and (
        (cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(y))
        or (cnp.PyArray_IS_F_CONTIGUOUS(x) and cnp.PyArray_IS_F_CONTIGUOUS(y))
    )


cdef bint _is_apart(cnp.ndarray out, cnp.ndarray x) noexcept:
    """Whether `x` is in another place than `out`, or element by element in the same."""
    cdef char* first = cnp.PyArray_BYTES(out)
    cdef char* second = cnp.PyArray_BYTES(x)
    if first == second:
        return cnp.PyArray_NBYTES(out) == cnp.PyArray_NBYTES(x) and cnp.PyArray_SAMESHAPE(out, x)
    return first + cnp.PyArray_NBYTES(out) <= second or second + cnp.PyArray_NBYTES(x) <= first
