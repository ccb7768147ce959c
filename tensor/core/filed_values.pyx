"""Tensor values stored in a file instead of in memory."""

cimport numpy as cnp

from weakref import ref

from tensor.memory.buffer import offset_in, view_at

cnp.import_array()


cdef class FiledValues:
    """Base class for the values of a tensor in a file. Subclasses define the file and read it.

    If other code still holds the array that was written to the file, the tensor gets this array back, not a
    copy. Such code is a running op, or an object that loads several tensors from one block.
    """

    def __init__(self, tuple shape, cnp.dtype dtype):
        self.shape = shape
        self.dtype = dtype

    cdef int remember(self, cnp.ndarray array, cnp.ndarray root) except -1:
        """Store where the values are in memory: in `array`, a view of `root` or `root` itself."""
        self.layout = None if array is root else (offset_in(array, root), (<object>array).strides)
        self.root = ref(root)
        return 0

    cdef cnp.ndarray array_in_memory(self):
        """Return the array that had the values, or None if its memory was freed."""
        cdef cnp.ndarray root = None if self.root is None else self.root()
        if root is None or self.layout is None:
            return root
        offset, strides = self.layout
        return view_at(root, offset, self.shape, strides, self.dtype)

    def read(self) -> cnp.ndarray:
        """Return a new array with the values."""
        raise NotImplementedError
