"""Products: matrices, stacks of small ones, affine maps. For `cimport`."""

cimport numpy as cnp

from tensor.kernels.elementwise cimport UnaryKernel
from tensor.kernels.running cimport Kernel

cdef extern from "tensor/kernels/products.h" namespace "disposescope::kernels" nogil:
    # The bytes in a row of a panel of the second factor.
    const Py_ssize_t panel_bytes

# Return ``np.matmul(a, b)`` for stacks of small matrices in a new array, or None if NumPy is as fast.
cdef cnp.ndarray product_of_stacks(cnp.ndarray a, cnp.ndarray b)

# Return ``np.matmul(a, b)`` for two matrices of matching shapes, in a new array or in `out`, which has that
# shape and dtype and is C-contiguous. Small products, and with AVX-512 medium ones, do not use the threads
# of a BLAS, because they keep spinning afterwards, on the cores of the thread pool.
cdef cnp.ndarray product(cnp.ndarray a, cnp.ndarray b, cnp.ndarray out=*)

# Like `product`, with `b` transposed if `is_transposed`. In the same pass, add `bias` (or None), one value
# for each column; set negative values to 0 if `is_rectified`; and call `function`, NULL or a loop of
# tensor/kernels/elementwise.h. The output of `function` replaces the product, or goes to `mapped`, a
# C-contiguous array. Return None if a BLAS is faster.
cdef cnp.ndarray finished_product(
    cnp.ndarray a, cnp.ndarray b, bint is_transposed, cnp.ndarray bias, bint is_rectified, Kernel function,
    cnp.ndarray mapped, cnp.ndarray out=*,
)

# Return ``x @ weight.T + bias`` in a new array; `bias` may be None. Apply ReLU if `is_rectified`. Call it
# inside a kernel context.
cpdef cnp.ndarray affine(cnp.ndarray x, cnp.ndarray weight, object bias, bint is_rectified)

# Return ``y = x @ weight.T + bias`` (None unless `keeps`) and ``function(y)``, computed in one pass. Return
# None if `function` does not support these arrays. Call it inside a kernel context.
cdef tuple affine_then(cnp.ndarray x, cnp.ndarray weight, object bias, UnaryKernel function, bint keeps)
