"""Tensor values stored in a file instead of in memory."""

cimport numpy as cnp

cnp.import_array()


cdef class FiledValues:
    """Base class for the values of a tensor in a file. Subclasses know the file and read it."""

    def __init__(self, tuple shape, cnp.dtype dtype):
        self.shape = shape
        self.dtype = dtype

    def read(self) -> cnp.ndarray:
        """Return a new array with the values."""
        raise NotImplementedError
