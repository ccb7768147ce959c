"""Kernels over channels, for other families of kernels. For `cimport`."""

cimport numpy as cnp

cdef extern from "tensor/kernels/channels.h" namespace "disposescope::kernels" nogil:
    cdef struct Channels:
        Py_ssize_t outer
        Py_ssize_t count
        Py_ssize_t inner

# Writes the mean of each channel of `x` to `means`, and the variance, by the count less `correction`, to
# `variances`: arrays of so many elements, of the dtype of `x`. `means` may be None.
cdef int moments(
    cnp.ndarray x, Channels shape, double correction, cnp.ndarray means, cnp.ndarray variances
) except -1

# Writes the sum of each channel of `y` to `sums`, and that of `y` times `x` less `around` to `products`.
cdef int sums_of_products(
    cnp.ndarray x, cnp.ndarray y, cnp.ndarray around, Channels shape, cnp.ndarray sums, cnp.ndarray products
) except -1
