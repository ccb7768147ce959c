"""Attention of plain arrays, and its gradients, block by block: see `attention.cpp`.

Queries have shape ``(batch, heads, queries, features)``, keys ``(batch, key heads, keys, features)``, and
values ``(batch, key heads, keys, value features)``. Each head of keys is used by the same number of
consecutive heads of queries. All have the same dtype, float32 or float64, and any strides. Call the functions
inside a kernel context.
"""

cimport numpy as cnp
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from tensor.kernels.axes cimport Kernel, new_array
from tensor.kernels.simd cimport simd_level
from tensor.kernels.threads cimport parallel_for

import numpy as np

from tensor.kernels.threads import get_num_threads

cnp.import_array()

cdef extern from "tensor/kernels/attention.h" namespace "disposescope::kernels" nogil:
    cdef struct Steps:
        Py_ssize_t batch
        Py_ssize_t head
        Py_ssize_t row
    cdef struct AttentionWork:
        Py_ssize_t batch
        Py_ssize_t key_heads
        Py_ssize_t group
        Py_ssize_t queries
        Py_ssize_t keys
        Py_ssize_t features
        Py_ssize_t value_features
        const void* query
        const void* key
        const void* value
        Steps query_steps
        Steps key_steps
        Steps value_steps
        double scale
        const void* numbers
        const uint8_t* booleans
        Steps mask_steps
        bint is_causal
        bint drops
        uint64_t seed
        uint32_t dropped_below
        double kept_scale
        void* out
        Steps out_steps
        void* logsumexp
        const void* gradient
        Steps gradient_steps
        void* query_gradient
        void* key_gradient
        void* value_gradient
        Steps query_gradient_steps
        Steps key_gradient_steps
        Steps value_gradient_steps
        void* scratch
        Py_ssize_t scratch_stride
        Py_ssize_t grain
    cdef struct KeptWork:
        uint64_t seed
        uint32_t dropped_below
        Py_ssize_t keys
        uint8_t* kept
    cdef struct Attention:
        Kernel forward[2]
        Kernel backward[2]
        Kernel kept
    const Attention* attention_kernels_of(int level)
    Py_ssize_t attention_queries
    Py_ssize_t attention_forward_scratch(Py_ssize_t features, Py_ssize_t value_features)
    Py_ssize_t attention_backward_scratch(
        Py_ssize_t features, Py_ssize_t value_features, Py_ssize_t queries_of_group
    )

cdef const Attention* _kernels = attention_kernels_of(simd_level)

# The number of pieces for each thread, to balance the load: in causal attention, a block of the first queries
# takes less time than one of the last.
cdef Py_ssize_t _PIECES = 4


cdef inline Steps _steps(cnp.ndarray a) noexcept:
    cdef Py_ssize_t size = cnp.PyArray_ITEMSIZE(a)
    return Steps(
        cnp.PyArray_STRIDE(a, 0) // size, cnp.PyArray_STRIDE(a, 1) // size, cnp.PyArray_STRIDE(a, 2) // size
    )


cdef cnp.ndarray _aligned(cnp.ndarray a):
    """Return `a`, or a copy, aligned and contiguous along its last dimension."""
    cdef Py_ssize_t size = cnp.PyArray_ITEMSIZE(a)
    cdef int i
    cdef bint fits = cnp.PyArray_ISALIGNED(a) and cnp.PyArray_ISNOTSWAPPED(a)
    fits = fits and (cnp.PyArray_DIM(a, 3) < 2 or cnp.PyArray_STRIDE(a, 3) == size)
    for i in range(3):
        fits = fits and cnp.PyArray_STRIDE(a, i) % size == 0
    return a if fits else np.array(a, order="C")


cdef cnp.ndarray _new(cnp.ndarray like, Py_ssize_t features):
    """Return a new array with the shape and memory order of `like`, but `features` features.

    If `like` is a view of the output of a linear layer, so that the heads of a row are adjacent, a reshape
    can join the heads of the result without a copy.
    """
    cdef cnp.npy_intp[4] shape
    cdef int[3] order = [0, 1, 2]
    cdef int i, j
    for i in range(1, 3):  # sort the axes by decreasing stride
        j = i
        while j and cnp.PyArray_STRIDE(like, order[j - 1]) < cnp.PyArray_STRIDE(like, order[j]):
            order[j - 1], order[j] = order[j], order[j - 1]
            j -= 1
    for i in range(3):
        shape[i] = cnp.PyArray_DIM(like, order[i])
    shape[3] = features
    found = new_array(4, shape, cnp.PyArray_TYPE(like))
    if order[0] == 0 and order[1] == 1:
        return found
    return found.transpose(np.argsort((order[0], order[1], order[2], 3)))


cdef cnp.ndarray _zeros(cnp.ndarray like):
    found = _new(like, cnp.PyArray_DIM(like, 3))
    found[...] = 0
    return found


cdef int _fill(
    AttentionWork* work, cnp.ndarray query, cnp.ndarray key, cnp.ndarray value, bint is_causal, double scale,
    uint64_t seed, double p,
) except -1:
    work.batch = cnp.PyArray_DIM(query, 0)
    work.key_heads = cnp.PyArray_DIM(key, 1)
    work.group = cnp.PyArray_DIM(query, 1) // max(work.key_heads, 1)
    work.queries = cnp.PyArray_DIM(query, 2)
    work.keys = cnp.PyArray_DIM(key, 2)
    work.features = cnp.PyArray_DIM(query, 3)
    work.value_features = cnp.PyArray_DIM(value, 3)
    work.query = cnp.PyArray_DATA(query)
    work.key = cnp.PyArray_DATA(key)
    work.value = cnp.PyArray_DATA(value)
    work.query_steps = _steps(query)
    work.key_steps = _steps(key)
    work.value_steps = _steps(value)
    work.scale = scale
    work.is_causal = is_causal
    work.drops = p > 0
    work.seed = seed
    work.dropped_below = _threshold_of(p)
    work.kept_scale = 1 / (1 - p) if p < 1 else 0
    return 0


cdef uint32_t _threshold_of(double p) noexcept:
    """Return the threshold below which a random 32-bit number lies with probability `p`, to within 2**-32."""
    return <uint32_t>min(p * 4294967296.0, 4294967295.0)


cdef cnp.ndarray _set_mask(AttentionWork* work, mask, cnp.ndarray query):
    """Set `mask`, which broadcasts to all scores, in `work`. Return an array that the caller must hold."""
    cdef cnp.ndarray held
    work.numbers = NULL
    work.booleans = NULL
    if mask is None:
        return None
    # Only the last dimension must be contiguous. Dimensions that are broadcast keep their stride of 0.
    if mask.shape[3] != work.keys:
        mask = np.broadcast_to(mask, (*mask.shape[:3], work.keys))
    mask = mask if mask.dtype == bool else mask.astype(query.dtype, copy=False)
    shape = (work.batch, work.key_heads * work.group, work.queries, work.keys)
    held = np.broadcast_to(_aligned(mask), shape)
    work.mask_steps = _steps(held)
    if cnp.PyArray_TYPE(held) == cnp.NPY_BOOL:
        work.booleans = <const uint8_t*>cnp.PyArray_DATA(held)
    else:
        work.numbers = cnp.PyArray_DATA(held)
    return held


cdef int _run(
    Kernel kernel, AttentionWork* work, Py_ssize_t units, Py_ssize_t scratch, cnp.ndarray like
) except -1:
    """Run the kernel. Each piece gets `scratch` elements of temporary memory."""
    cdef Py_ssize_t pieces = min(units, _PIECES * <Py_ssize_t>get_num_threads())
    cdef cnp.npy_intp size
    cdef cnp.ndarray held
    work.grain = (units + pieces - 1) // pieces
    pieces = (units + work.grain - 1) // work.grain
    size = pieces * scratch
    held = new_array(1, &size, cnp.PyArray_TYPE(like))
    work.scratch = cnp.PyArray_DATA(held)
    work.scratch_stride = scratch
    with nogil:  # the caller keeps the arrays alive
        parallel_for(units, work.grain, kernel, work)
    return 0


def attention_forward(
    cnp.ndarray query not None, cnp.ndarray key not None, cnp.ndarray value not None, mask, bint is_causal,
    double scale, uint64_t seed, double p,
):
    """Return the attention output, and for backward the logsumexp of each query's scores.

    `mask` is None, or has four dimensions that broadcast. A boolean mask selects scores, a float mask is
    added to them. Dropout with probability `p` and `seed` applies to the softmax. A query that attends to no
    key returns 0.
    """
    cdef AttentionWork work
    cdef cnp.ndarray out, logsumexp
    cdef cnp.npy_intp[3] shape = [
        cnp.PyArray_DIM(query, 0), cnp.PyArray_DIM(query, 1), cnp.PyArray_DIM(query, 2)
    ]
    cdef Py_ssize_t units
    query, key, value = _aligned(query), _aligned(key), _aligned(value)
    _fill(&work, query, key, value, is_causal, scale, seed, p)
    _held = _set_mask(&work, mask, query)
    out = _new(query, work.value_features)
    logsumexp = new_array(3, shape, cnp.PyArray_TYPE(query))
    work.out = cnp.PyArray_DATA(out)
    work.out_steps = _steps(out)
    work.logsumexp = cnp.PyArray_DATA(logsumexp)
    units = shape[0] * shape[1] * ((work.queries + attention_queries - 1) // attention_queries)
    if units:
        _run(
            _kernels.forward[cnp.PyArray_TYPE(query) == cnp.NPY_DOUBLE], &work, units,
            attention_forward_scratch(work.features, work.value_features), query,
        )
    return out, logsumexp


def attention_backward(
    cnp.ndarray g not None, wanted, cnp.ndarray query not None, cnp.ndarray key not None,
    cnp.ndarray value not None, mask, bint is_causal, double scale, uint64_t seed, double p,
    cnp.ndarray out not None, cnp.ndarray logsumexp not None,
):
    """Return the gradients of query, key and value from that of `out`; None for those not `wanted`."""
    cdef AttentionWork work
    cdef cnp.ndarray d_query = None, d_key = None, d_value = None
    cdef Py_ssize_t units
    wants_query, wants_key, wants_value = wanted
    g, query, key, value = _aligned(g), _aligned(query), _aligned(key), _aligned(value)
    out = _aligned(out)
    _fill(&work, query, key, value, is_causal, scale, seed, p)
    _held = _set_mask(&work, mask, query)
    work.out = cnp.PyArray_DATA(out)
    work.out_steps = _steps(out)
    work.logsumexp = cnp.PyArray_DATA(logsumexp)
    work.gradient = cnp.PyArray_DATA(g)
    work.gradient_steps = _steps(g)
    work.query_gradient = work.key_gradient = work.value_gradient = NULL
    if wants_query:
        d_query = _zeros(query)
        work.query_gradient = cnp.PyArray_DATA(d_query)
        work.query_gradient_steps = _steps(d_query)
    if wants_key:
        d_key = _zeros(key)
        work.key_gradient = cnp.PyArray_DATA(d_key)
        work.key_gradient_steps = _steps(d_key)
    if wants_value:
        d_value = _zeros(value)
        work.value_gradient = cnp.PyArray_DATA(d_value)
        work.value_gradient_steps = _steps(d_value)
    units = work.batch * work.key_heads
    if units and work.queries and work.keys:
        _run(
            _kernels.backward[cnp.PyArray_TYPE(query) == cnp.NPY_DOUBLE], &work, units,
            attention_backward_scratch(work.features, work.value_features, work.group * work.queries), query,
        )
    return d_query, d_key, d_value


def attention_kept(shape, uint64_t seed, double p):
    """Return the values that dropout with `seed` keeps: bools of shape ``(batch, heads, queries, keys)``."""
    cdef KeptWork work
    cdef cnp.ndarray found = np.empty(shape, np.bool_)
    cdef Py_ssize_t rows = shape[0] * shape[1] * shape[2]
    work.seed = seed
    work.dropped_below = _threshold_of(p)
    work.keys = shape[3]
    work.kept = <uint8_t*>cnp.PyArray_DATA(found)
    _kernels.kept(&work, 0, rows)
    return found
