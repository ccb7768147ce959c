"""Masking ufuncs: keep the selected elements, and replace others by zeros, including infinities and nan.

A product with the mask would give nan for infinities and nan. ``np.where`` takes two to ten times as long.
"""

cimport numpy as cnp

cnp.import_array()
cnp.import_ufunc()

cdef extern from *:
    """
    #include <complex>
    #include <cstdint>

    /* 16-bit floats, which C++17 does not have. The value is 0 if all bits except the sign are 0. */
    struct half_bits { uint16_t bits; };

    static inline bool is_nonzero(half_bits x) { return (x.bits & 0x7fff) != 0; }
    static inline bool is_nonzero(npy_bool x) { return x != 0; }
    template <typename T> static inline bool is_nonzero(T x) { return x != T(0); }

    /* The compiler vectorises each loop. Arrays may be identical, but do not overlap partially. */
    template <typename T, typename By>
    static void keep_loop(char **args, const npy_intp *sizes, const npy_intp *steps, void *)
    {
        const npy_intp n = sizes[0];
        const T zero = T();
        if (steps[0] == sizeof(T) && steps[1] == sizeof(By) && steps[2] == sizeof(T)) {
            const T *x = (const T *)args[0];
            const By *by = (const By *)args[1];
            T *out = (T *)args[2];
            if (x == out)
                for (npy_intp i = 0; i < n; i++) {
                    const T value = out[i];
                    out[i] = is_nonzero(by[i]) ? value : zero;
                }
            else
                for (npy_intp i = 0; i < n; i++) {
                    const T value = x[i];  /* read unconditionally, to avoid a branch */
                    out[i] = is_nonzero(by[i]) ? value : zero;
                }
            return;
        }
        for (npy_intp i = 0; i < n; i++)
            *(T *)(args[2] + i * steps[2]) =
                is_nonzero(*(const By *)(args[1] + i * steps[1]))
                ? *(const T *)(args[0] + i * steps[0]) : zero;
    }

    static PyUFuncGenericFunction nonzero_loops[] = {
        keep_loop<half_bits, half_bits>, keep_loop<float, float>, keep_loop<double, double>,
        keep_loop<std::complex<float>, std::complex<float>>,
        keep_loop<std::complex<double>, std::complex<double>>};
    static PyUFuncGenericFunction true_loops[] = {
        keep_loop<half_bits, npy_bool>, keep_loop<float, npy_bool>, keep_loop<double, npy_bool>,
        keep_loop<std::complex<float>, npy_bool>, keep_loop<std::complex<double>, npy_bool>};
    static void *no_data[5] = {NULL, NULL, NULL, NULL, NULL};
    static char nonzero_types[] = {
        NPY_HALF, NPY_HALF, NPY_HALF, NPY_FLOAT, NPY_FLOAT, NPY_FLOAT, NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE,
        NPY_CFLOAT, NPY_CFLOAT, NPY_CFLOAT, NPY_CDOUBLE, NPY_CDOUBLE, NPY_CDOUBLE};
    static char true_types[] = {
        NPY_HALF, NPY_BOOL, NPY_HALF, NPY_FLOAT, NPY_BOOL, NPY_FLOAT, NPY_DOUBLE, NPY_BOOL, NPY_DOUBLE,
        NPY_CFLOAT, NPY_BOOL, NPY_CFLOAT, NPY_CDOUBLE, NPY_BOOL, NPY_CDOUBLE};
    """
    cnp.PyUFuncGenericFunction* nonzero_loops
    cnp.PyUFuncGenericFunction* true_loops
    void** no_data
    char* nonzero_types
    char* true_types

cdef const char* _doc_of_nonzero = b"""Return `x` where `by` is not 0, else 0.

A ufunc for inexact dtypes. `x` and `by` have the same dtype. nan counts as not 0.

>>> import numpy as np
>>> keep_nonzero(np.array([np.inf, np.nan, 3.0]), np.array([0.0, -0.0, np.nan])).tolist()
[0.0, 0.0, 3.0]
"""

cdef const char* _doc_of_true = b"""Return `x` where `mask`, an array of bools, is true, else 0.

A ufunc for inexact dtypes.

>>> import numpy as np
>>> keep_true(np.array([np.inf, 3.0]), np.array([False, True])).tolist()
[0.0, 3.0]
"""

keep_nonzero = cnp.PyUFunc_FromFuncAndData(
    nonzero_loops, no_data, nonzero_types, 5, 2, 1, cnp.PyUFunc_None, "keep_nonzero", _doc_of_nonzero, 0
)
keep_true = cnp.PyUFunc_FromFuncAndData(
    true_loops, no_data, true_types, 5, 2, 1, cnp.PyUFunc_None, "keep_true", _doc_of_true, 0
)

# doctest does not find docstrings of ufuncs by itself.
__test__ = {"keep_nonzero": keep_nonzero.__doc__, "keep_true": keep_true.__doc__}
