"""Values that are in a file instead of in memory."""

cimport numpy as cnp

cnp.import_array()


cdef class FiledValues:
    """The values of a tensor that are in a file: subclasses know which, and read them."""

    def __init__(self, tuple shape, cnp.dtype dtype):
        self.shape = shape
        self.dtype = dtype

    def read(self) -> cnp.ndarray:
        """Return a new array with the values."""
        raise NotImplementedError
