"""Products of stacks of matrices. For `cimport`."""

cimport numpy as cnp

# ``np.matmul(a, b)`` of stacks of small matrices, in a new array; None where NumPy is as quick.
cdef cnp.ndarray product_of_stacks(cnp.ndarray a, cnp.ndarray b)
