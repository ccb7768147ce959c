"""Products of matrices on the pool of threads. For `cimport`."""

cimport numpy as cnp

from tensor.kernels.axes cimport Kernel

# ``np.matmul(a, b)`` of stacks of small matrices, in a new array; None where NumPy is as quick.
cdef cnp.ndarray product_of_stacks(cnp.ndarray a, cnp.ndarray b)

# ``np.matmul(a, b)`` of two matrices whose shapes fit, in a new array, or in `out`, which has that shape
# and dtype and is in C order. Small and medium products do not use the threads of a BLAS: these keep spinning
# after their work, on the cores of our threads.
cdef cnp.ndarray product(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out=*)

# The same, or by the transposed `b`, and in the same pass: `bias`, None or one value for each column, is
# added, then what is negative raised to 0, then `function` is called, NULL or a loop of
# tensor/kernels/elementwise.h. What that returns goes to `mapped`, an array in C order, or takes the place of
# the product. None where a BLAS is quicker.
cdef cnp.ndarray finished_product(
    cnp.ndarray a, cnp.ndarray b, bint is_transposed, cnp.ndarray bias, bint is_rectified, Kernel function,
    cnp.ndarray mapped, cnp.ndarray out=*,
)
