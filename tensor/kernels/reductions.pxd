"""Kernels over channels, for other families of kernels. For `cimport`."""

cimport numpy as cnp

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    cdef struct Channels:
        Py_ssize_t outer
        Py_ssize_t count
        Py_ssize_t inner

# Write the mean of each channel of `x` to `means`, which may be None, and the variance, divided by the count
# minus `correction`, to `variances`. Both have one element for each channel, in the dtype of `x`.
cdef int moments(
    cnp.ndarray x, Channels shape, double correction, cnp.ndarray means, cnp.ndarray variances
) except -1

# Write the sum of each channel of `y` to `sums`, and that of y * (x - around) to `products`.
cdef int sums_of_products(
    cnp.ndarray x, cnp.ndarray y, cnp.ndarray around, Channels shape, cnp.ndarray sums, cnp.ndarray products
) except -1
