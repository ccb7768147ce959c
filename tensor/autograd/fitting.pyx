"""Conversion of gradients to the shape and dtype of their inputs."""

cimport numpy as cnp

from tensor.core.bfloat16 cimport narrowed, widened
from tensor.tape.nodes cimport Node

import numpy as np

cnp.import_array()

cdef object _add = np.add


cdef cnp.ndarray as_array(object result):
    return <cnp.ndarray>result if type(result) is cnp.ndarray else np.asarray(result)


cdef inline bint _has_shape(cnp.ndarray array, tuple shape) except -1:
    cdef int i, n = cnp.PyArray_NDIM(array)
    if len(shape) != n:
        return False
    for i in range(n):
        if cnp.PyArray_DIM(array, i) != <Py_ssize_t>shape[i]:
            return False
    return True


cdef cnp.ndarray fitting(object gradient, Node node):
    cdef cnp.ndarray g = as_array(gradient)
    cdef cnp.dtype dtype = node.dtype
    cdef tuple shape = node.shape
    if not _has_shape(g, shape):
        g = widened(g)  # round sums of bfloat16 only once
        if (
            len(shape) == 1
            and cnp.PyArray_NDIM(g) == 2
            and cnp.PyArray_DIM(g, 1) == <Py_ssize_t>shape[0]
            and cnp.PyArray_IS_C_CONTIGUOUS(g)
            and cnp.PyArray_TYPE(g) in (cnp.NPY_FLOAT, cnp.NPY_DOUBLE)
        ):
            # A sum by a product, for a bias: 0.8 us instead of 2.2 for (64, 128), 25 not 62 for (64, 8096)
            g = cnp.PyArray_MatrixProduct(_ones(cnp.PyArray_DIM(g, 0), <cnp.dtype>cnp.PyArray_DESCR(g)), g)
        else:
            g = _without_broadcast(g, shape)
    if <cnp.dtype>cnp.PyArray_DESCR(g) is not dtype and <cnp.dtype>cnp.PyArray_DESCR(g) != dtype:
        if cnp.PyArray_ISCOMPLEX(g) and dtype.kind != c"c":
            g = g.real
        if dtype.kind == c"V" and cnp.PyArray_TYPE(g) == cnp.NPY_FLOAT:
            g = narrowed(g, dtype)
        else:
            g = g.astype(dtype)
    return g


cdef cnp.ndarray _without_broadcast(cnp.ndarray g, tuple shape):
    cdef Py_ssize_t added = cnp.PyArray_NDIM(g) - len(shape)
    cdef list stretched = []
    cdef Py_ssize_t i
    if added > 0:
        g = as_array(_add.reduce(g, axis=tuple(range(added))))
    for i in range(len(shape)):
        if shape[i] == 1 and cnp.PyArray_DIM(g, <int>i) != 1:
            stretched.append(i)
    if stretched:
        g = as_array(_add.reduce(g, axis=tuple(stretched), keepdims=True))
    return g if _has_shape(g, shape) else np.broadcast_to(g, shape)


cdef Py_ssize_t _KEPT = 4096

# Factors for such products. Created at import, because memory from a kernel context counts as live.
cdef dict _all_ones = {
    np.dtype(np.float32): np.ones(_KEPT, np.float32), np.dtype(np.float64): np.ones(_KEPT, np.float64)
}


cdef cnp.ndarray _ones(Py_ssize_t n, cnp.dtype dtype):
    cdef cnp.ndarray kept = <cnp.ndarray>_all_ones[dtype]
    return kept[:n] if n <= _KEPT else np.ones(n, dtype)
